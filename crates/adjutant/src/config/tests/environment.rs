use adjutant_worker::model::{Secret, Wire};

use super::*;

fn with(text: &str, variables: &[(&str, &str)]) -> ConfigDir {
    ConfigDir::new(&[("adjutant.toml", text)]).with_variables(variables)
}

#[test]
fn a_variable_overrides_the_file() {
    let dir = with(
        "default_model = 'main'\n[limits]\ncap = 3\n[models.main]\nwire = 'openai'\n[models.gpt-mini]\nwire = 'openai'\n",
        &[
            ("ADJUTANT_LIMITS_CAP", "9"),
            ("ADJUTANT_LIMITS__SESSION_MAX_ACTIVE", "4"),
            ("ADJUTANT_LEASE_SECONDS", "12"),
            ("ADJUTANT_LOG_PAYLOADS", "true"),
            ("ADJUTANT_DEFAULT_MODEL", "gpt-mini"),
            ("ADJUTANT_MODELS_MAIN_BASE_URL", "http://127.0.0.1:9/v1"),
            ("ADJUTANT_MODELS_MAIN_MAX_TOKENS", "77"),
            ("ADJUTANT_MODELS_GPT_MINI_WIRE", "anthropic"),
            ("ADJUTANT_MODELS_MAIN_PRICES_CACHE_READ", "0.5"),
            ("ADJUTANT_MODELS_MAIN_TEMPERATURE", "1"),
            ("ADJUTANT_MODEL_ALIASES", "{ sonnet = 'main', '*' = 'main' }"),
            ("ADJUTANT_AGENTS_SCOUT_DESCRIPTION", "Looks: around"),
            ("ADJUTANT_AGENTS_SCOUT_SYSTEM_PROMPT", "[You] look around."),
            ("ADJUTANT_AGENTS_SCOUT_TOOLS", "shared_context, fetch"),
            ("ADJUTANT_AGENTS_SCOUT_MODEL", "anything"),
            ("ADJUTANT_TOOLS_MCP_FILES_COMMAND", "['npx', '-y', 'a, b']"),
            ("ADJUTANT_LIMITS_MAX_TURNS_CEILING", ""),
        ],
    );
    let loaded = dir.load();
    assert_eq!(dir.texts(&loaded.errors), [""; 0]);
    assert_eq!(dir.texts(&loaded.config.warnings), [""; 0]);
    let config = loaded.config;
    assert_eq!(
        (config.limits.cap, config.limits.session_max_active, config.lease_seconds),
        (9, 4, 12)
    );
    assert_eq!(config.limits.max_turns_ceiling, 25);
    assert!(config.log_payloads);
    assert_eq!(config.model_names.default.as_deref(), Some("gpt-mini"));
    let main = &config.models["main"];
    assert_eq!(main.base_url.as_ref().map(Secret::expose), Some("http://127.0.0.1:9/v1"));
    assert_eq!(
        (main.max_tokens, main.prices.unwrap().cache_read, main.temperature),
        (Some(77), Some(0.5), Some(1.0))
    );
    assert_eq!(config.models["gpt-mini"].wire, Wire::Anthropic);
    let scout = &config.agents["scout"].definition;
    assert_eq!(
        (scout.description.as_str(), scout.config.system_prompt.as_str()),
        ("Looks: around", "[You] look around.")
    );
    assert_eq!(scout.config.tools, ["shared_context", "fetch"]);
    assert_eq!(scout.config.model, "main", "by the alias that catches all");
    assert!(config.tools.mcp.contains_key("files"));
}

#[test]
fn an_invalid_variable_is_an_error_with_its_name() {
    for (name, value, expected) in [
        ("ADJUTANT_LIMITS_CAP", "many", "ADJUTANT_LIMITS_CAP: limits.cap: must be a whole number"),
        (
            "ADJUTANT_LIMITS_CAP",
            "-1",
            "ADJUTANT_LIMITS_CAP: limits.cap: must be at least 0, not -1",
        ),
        (
            "ADJUTANT_LEASE_SECONDS",
            "1",
            "ADJUTANT_LEASE_SECONDS: lease.seconds: must be at least 2, not 1",
        ),
        (
            "ADJUTANT_LOG_PAYLOADS",
            "yes",
            "ADJUTANT_LOG_PAYLOADS: log_payloads: must be true or false",
        ),
        (
            "ADJUTANT_MODELS_MAIN_WIRE",
            "grpc",
            "ADJUTANT_MODELS_MAIN_WIRE: models.main.wire: must be \"openai\" or \"anthropic\"",
        ),
    ] {
        assert_eq!(with(MODEL, &[(name, value)]).errors(), [expected]);
    }
}

#[test]
fn an_unknown_variable_is_a_warning_that_suggests_the_nearest() {
    for (name, expected) in [
        (
            "ADJUTANT_LIMITS_CAPS",
            "ADJUTANT_LIMITS_CAPS: unknown variable; did you mean ADJUTANT_LIMITS_CAP?",
        ),
        ("ADJUTANT_POOLS", "ADJUTANT_POOLS: unknown variable; did you mean ADJUTANT_POOL?"),
        ("ADJUTANT_CONFG", "ADJUTANT_CONFG: unknown variable; did you mean ADJUTANT_CONFIG?"),
        (
            "ADJUTANT_MODELS_MAIN_BASE_ULR",
            "ADJUTANT_MODELS_MAIN_BASE_ULR: unknown variable; did you mean ADJUTANT_MODELS_MAIN_BASE_URL?",
        ),
        (
            "ADJUTANT_SOMETHING_ELSE_ENTIRELY",
            "ADJUTANT_SOMETHING_ELSE_ENTIRELY: unknown variable; `adjutant config example` lists every setting",
        ),
    ] {
        let dir = with(MODEL, &[(name, "x")]);
        assert_eq!(dir.warnings(), [expected]);
        assert_eq!(dir.errors(), [""; 0]);
    }
}

#[test]
fn variables_of_other_programs_are_ignored() {
    let text = "[models.main]\nwire = 'openai'\napi_key_env = 'ADJUTANT_MY_KEY'\n";
    let dir = with(
        text,
        &[
            ("ADJUTANT_POOL", "gpu"),
            ("ADJUTANT_FAULT", "x"),
            ("ADJUTANT_CONFIG", "x"),
            ("ADJUTANT_TEST_SERVER", "x"),
            ("ADJUTANT_DRIVER_SECONDS", "1"),
            ("ADJUTANT_MY_KEY", "geheim"),
            ("OTHER_LIMITS_CAP", "1"),
        ],
    );
    assert_eq!(dir.warnings(), [""; 0]);
}

#[test]
fn every_variable_of_a_flag_is_known() {
    let environment = Origin::from_process(None, Role::default()).environment;
    for name in [
        "ADJUTANT_CONCURRENCY",
        "ADJUTANT_POOL",
        "ADJUTANT_LEASE_SECONDS",
        "ADJUTANT_LISTEN_URL",
        "ADJUTANT_WORKER_NAME",
        "ADJUTANT_GRACE_SECONDS",
        "ADJUTANT_TIME_LIMIT_SECONDS",
        "ADJUTANT_LOG",
        "ADJUTANT_LOG_FORMAT",
    ] {
        assert!(environment.flags.iter().any(|flag| flag == name), "{name}");
    }
}
