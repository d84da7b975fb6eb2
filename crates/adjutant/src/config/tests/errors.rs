use super::*;

#[track_caller]
fn refused(text: &str, expected: &[&str]) {
    assert_eq!(ConfigDir::new(&[("adjutant.toml", text)]).errors(), expected, "{text}");
}

#[test]
fn an_unknown_setting_is_an_error_that_suggests_the_nearest() {
    for (text, expected) in [
        (
            "[limits]\ncapp = 5\n",
            "adjutant.toml:2:1: limits.capp: unknown setting; did you mean limits.cap?",
        ),
        (
            "defalt_model = 'x'\n",
            "adjutant.toml:1:1: defalt_model: unknown setting; did you mean default_model?",
        ),
        ("[limit]\ncap = 5\n", "adjutant.toml:1:2: limit: unknown setting; did you mean limits?"),
        (
            "[webhooks]\nallow_privat = true\n",
            "adjutant.toml:2:1: webhooks.allow_privat: unknown setting; did you mean webhooks.allow_private?",
        ),
        ("\ncap = 5\n", "adjutant.toml:2:1: cap: unknown setting; did you mean limits.cap?"),
        ("[lease]\nsecs = 5\n", "adjutant.toml:2:1: lease.secs: unknown setting; known: seconds"),
        (
            "[models.m]\nwire = 'openai'\nprices = { imput = 1 }\n",
            "adjutant.toml:3:12: models.m.prices.imput: unknown setting; did you mean models.m.prices.input?",
        ),
        (
            "[models.\"a b\"]\nwire = 'openai'\n",
            "adjutant.toml:1:9: models.\"a b\": a model name has 1 to 128 characters, no spaces, and is not \"*\"",
        ),
        (
            "[tools.http.t]\ndescription = 'é' \nurl = 'http://x'\nreply = 'safe'\n",
            "adjutant.toml:4:1: tools.http.t.reply: unknown setting; did you mean tools.http.t.replay?",
        ),
        (
            "[tools.https.t]\n",
            "adjutant.toml:1:8: tools.https: unknown setting; did you mean tools.http?",
        ),
    ] {
        refused(text, &[expected]);
    }
}

#[test]
fn a_limit_of_the_cost_without_prices_is_an_error_of_the_config() {
    let agent =
        "[agents.a]\ndescription = 'A.'\nsystem_prompt = 'You are a.'\nmax_cost_usd = 0.5\n";
    let config = |prices: &str, model: &str| {
        format!("[models.m]\nwire = 'openai'\n{prices}[model_aliases]\nx = 'm'\n{agent}{model}")
    };
    for model in ["", "model = 'm'\n", "model = 'x'\n"] {
        refused(
            &config("", model),
            &[
                "adjutant.toml:5:9: agents.a.max_cost_usd: needs the prices of its model; set models.m.prices",
            ],
        );
        refused(&config("prices = {}\n", model), &[]);
        refused(&config("prices = { input = 1.0 }\n", model), &[]);
    }
}

#[test]
fn an_invalid_value_is_an_error_with_its_line_and_what_is_allowed() {
    for (text, expected) in [
        ("[lease]\nseconds = 1\n", "adjutant.toml:2:11: lease.seconds: must be at least 2, not 1"),
        ("[limits]\ncap = -1\n", "adjutant.toml:2:7: limits.cap: must be at least 0, not -1"),
        (
            "[limits]\nmax_turns_ceiling = 1001\n",
            "adjutant.toml:2:21: limits.max_turns_ceiling: must be at most 1000, not 1001",
        ),
        (
            "[limits]\nmax_task_tokens = 100001\n",
            "adjutant.toml:2:19: limits.max_task_tokens: must be at most 100000, not 100001",
        ),
        (
            "[limits]\nmax_value_tokens = 0\n",
            "adjutant.toml:2:20: limits.max_value_tokens: must be at least 1, not 0",
        ),
        (
            "[limits]\nmax_store_tokens = 1e4\n",
            "adjutant.toml:2:20: limits.max_store_tokens: must be a whole number, not a number",
        ),
        (
            "[limits]\nmax_prompt_tokens = '4k'\n",
            "adjutant.toml:2:21: limits.max_prompt_tokens: must be a whole number, not a string",
        ),
        (
            "[limits]\ncap = '5'\n",
            "adjutant.toml:2:7: limits.cap: must be a whole number, not a string",
        ),
        ("limits = 5\n", "adjutant.toml:1:10: limits: must be a table, not a whole number"),
        (
            "log_payloads = 'yes'\n",
            "adjutant.toml:1:16: log_payloads: must be true or false, not a string",
        ),
        (
            "[limits]\ntask_timeout_s = 20\ntask_timeout_max_s = 10\n",
            "adjutant.toml:2:18: limits.task_timeout_s: must be at most limits.task_timeout_max_s (10), not 20",
        ),
        (
            "[limits]\ntask_timeout_s = 0\n",
            "adjutant.toml:2:18: limits.task_timeout_s: must be above 0 and at most 1000000000, not 0",
        ),
        (
            "agents_dir = ['a', 3]\n",
            "adjutant.toml:1:14: agents_dir: must be a list of strings, but contains a whole number",
        ),
        (
            "model_aliases = { a = 3 }\n",
            "adjutant.toml:1:17: model_aliases: a: must be a string, not a whole number",
        ),
    ] {
        refused(text, &[expected]);
    }
}

#[test]
fn missing_and_conflicting_settings_of_models_and_tools_are_errors() {
    for (text, expected) in [
        (
            "[models.m]\nbase_url = 'http://x/v1'\n",
            "adjutant.toml:1:9: models.m.wire: is required: \"openai\" or \"anthropic\"",
        ),
        (
            "[models.m]\nwire = 'open_ai'\n",
            "adjutant.toml:2:8: models.m.wire: must be \"openai\" or \"anthropic\"; did you mean \"openai\"?",
        ),
        (
            "[models.m]\nwire = 'openai'\napi_key_env = 'K'\napi_key_file = 'k'\n",
            "adjutant.toml:4:1: models.m.api_key_file: conflicts with api_key_env; remove one of them",
        ),
        (
            "[models.m]\nwire = 'openai'\nbase_url = 'localhost:9000'\n",
            "adjutant.toml:3:12: models.m.base_url: must be a URL that starts with http:// or https://",
        ),
        (
            "default_model = 'man'\n[models.main]\nwire = 'openai'\n[models.other]\nwire = 'openai'\n",
            "adjutant.toml:1:17: default_model: unknown model \"man\"; did you mean main?",
        ),
        (
            "[models.main]\nwire = 'openai'\nfallback = ['othr']\n[models.other]\nwire = 'openai'\n",
            "adjutant.toml:3:13: models.main.fallback: unknown model \"othr\"; did you mean other?",
        ),
        (
            "[models.main]\nwire = 'openai'\nfallback = ['main']\n",
            "adjutant.toml:3:13: models.main.fallback: \"main\" falls back to main again; remove one of the fallbacks",
        ),
        (
            "[models.main]\nwire = 'openai'\nrequests_per_minute = 0\n",
            "adjutant.toml:3:23: models.main.requests_per_minute: must be at least 1, not 0",
        ),
        (
            "[model_aliases]\nx = 'nobody'\n[models.main]\nwire = 'openai'\n",
            "adjutant.toml:2:5: model_aliases.x: unknown model \"nobody\"; known: main",
        ),
        (
            "[model_aliases]\nmain = 'main'\n[models.main]\nwire = 'openai'\n",
            "adjutant.toml:2:1: model_aliases.main: is never used, because models.main exists; remove it",
        ),
        (
            "[tools.mcp.m]\ncommand = ['x']\nurl = 'http://x'\n",
            "adjutant.toml:3:1: tools.mcp.m.url: conflicts with command; remove one of them",
        ),
        ("[tools.mcp.m]\n", "adjutant.toml:1:12: tools.mcp.m: command or url is required"),
        (
            "[tools.http.t]\nurl = 'http://x'\n",
            "adjutant.toml:1:13: tools.http.t.description: is required",
        ),
        (
            "[tools.http.fetch]\nurl = 'http://x'\ndescription = 'x'\n",
            "adjutant.toml:1:13: tools.http.fetch: this is the name of a built-in tool; choose another",
        ),
        (
            "[tools.http.AgentTool]\nurl = 'http://x'\ndescription = 'x'\n",
            "adjutant.toml:1:13: tools.http.AgentTool: this name is reserved for a tool of Adjutant; choose another",
        ),
        (
            "[tools.http.\"a b\"]\nurl = 'http://x'\ndescription = 'x'\n",
            "adjutant.toml:1:13: tools.http.\"a b\": a tool name has 1 to 64 characters: letters, digits, _ and -",
        ),
        (
            "[tools.files]\nmax_bytes = 5\n",
            "adjutant.toml:1:8: tools.files.root: is required: the folder that may be read",
        ),
        (
            "[tools.http.t]\ndescription = 'x'\nurl = 'http://x'\nheaders = { a = { envv = 'X' } }\n",
            "adjutant.toml:4:11: tools.http.t.headers: a: must be a string or { env = \"NAME\" }",
        ),
    ] {
        refused(text, &[expected]);
    }
}

#[test]
fn an_invalid_agent_is_an_error() {
    let agent = |rest: &str| format!("{MODEL}[agents.a]\ndescription = 'd'\n{rest}");
    for (text, expected) in [
        (
            agent(""),
            "adjutant.toml:3:9: agents.a.system_prompt: is required, or system_prompt_file",
        ),
        (
            agent("system_prompt = 'p'\nsystem_prompt_file = 'p'\n"),
            "adjutant.toml:6:1: agents.a.system_prompt_file: conflicts with system_prompt; remove one of them",
        ),
        (
            agent("system_prompt_file = './p.md'\n"),
            "adjutant.toml:5:22: agents.a.system_prompt_file: p.md: cannot be read: no such file or directory",
        ),
        (
            agent("system_prompt = 'p'\nmodel = 'mian'\n"),
            "adjutant.toml:6:9: agents.a.model: unknown model \"mian\"; did you mean main?",
        ),
        (
            agent("system_prompt = 'p'\ntools = ['fetch', 'fetsch']\n"),
            "adjutant.toml:6:19: agents.a.tools: unknown tool \"fetsch\"; did you mean fetch?",
        ),
        (
            agent("system_prompt = 'p'\ntools = ['read_file']\n"),
            "adjutant.toml:6:10: agents.a.tools: the tool read_file is disabled: set tools.files.root",
        ),
        (
            agent("system_prompt = 'p'\ntools = ['fetch']\n[tools.fetch]\nenabled = false\n"),
            "adjutant.toml:6:10: agents.a.tools: the tool fetch is disabled: tools.fetch.enabled is false",
        ),
        (
            agent("system_prompt = 'p'\nmax_turns = 0\n"),
            "adjutant.toml:6:13: agents.a.max_turns: must be at least 1, not 0",
        ),
        (
            agent("system_prompt = ' '\n"),
            "adjutant.toml:5:17: agents.a.system_prompt: must not be empty",
        ),
        (
            agent("system_prompt = 'p'\non_worker_loss = 'retry'\n"),
            "adjutant.toml:6:18: agents.a.on_worker_loss: must be \"resume\" or \"fail\"",
        ),
        (
            "[agents.\"Code Reviewer\"]\ndescription = 'd'\nsystem_prompt = 'p'\n".to_owned(),
            "adjutant.toml:1:9: agents.\"Code Reviewer\": an agent name has 1 to 64 characters: a-z, 0-9, _ and -; for example code-reviewer",
        ),
        (
            "[webhooks]\nretry_s = 10\nretry_max_s = 5\n".to_owned(),
            "adjutant.toml:2:11: webhooks.retry_s: must be at most webhooks.retry_max_s (5), not 10",
        ),
        (
            "[webhooks]\nmax_tries = 0\n".to_owned(),
            "adjutant.toml:2:13: webhooks.max_tries: must be at least 1, not 0",
        ),
        (
            "[agents.a]\nsystem_prompt = 'p'\n".to_owned(),
            "adjutant.toml:1:9: agents.a.description: is required: one line that says what the agent is for",
        ),
    ] {
        refused(&text, &[expected]);
    }
}

#[test]
fn all_errors_are_reported_in_the_order_of_the_file() {
    let text = "default_model = 'x'\nfoo_bar_baz = 1\n[lease]\nseconds = 0\n[models.a]\nwire = 'x'\n[agents.B]\ntools = ['z']\n";
    refused(
        text,
        &[
            "adjutant.toml:1:17: default_model: unknown model \"x\"; known: a",
            "adjutant.toml:2:1: foo_bar_baz: unknown setting; known: agents, agents_dir, default_model, dialects, free_form, lease, limits, log_payloads, model_aliases, models, name, server, skills, skills_dir, tools, webhooks",
            "adjutant.toml:4:11: lease.seconds: must be at least 2, not 0",
            "adjutant.toml:6:8: models.a.wire: must be \"openai\" or \"anthropic\"",
            "adjutant.toml:7:9: agents.B: an agent name has 1 to 64 characters: a-z, 0-9, _ and -; for example b",
            "adjutant.toml:7:9: agents.B.description: is required: one line that says what the agent is for",
            "adjutant.toml:7:9: agents.B.system_prompt: is required, or system_prompt_file",
            "adjutant.toml:8:10: agents.B.tools: unknown tool \"z\"; known: fetch, shared_context",
        ],
    );
}

#[test]
fn every_line_of_invalid_toml_is_reported() {
    let errors = ConfigDir::new(&[("adjutant.toml", "a = \nb = 1\nb = 2\n[limits\n")]).errors();
    let places: Vec<&str> =
        errors.iter().filter_map(|error| error.split(": invalid TOML: ").next()).collect();
    assert_eq!(places.len(), 3, "{errors:?}");
    assert!(
        places[0].starts_with("adjutant.toml:1:") && places[1].starts_with("adjutant.toml:3:"),
        "{errors:?}"
    );
    assert!(places[2].starts_with("adjutant.toml:4:"), "{errors:?}");
}

#[test]
fn an_unreadable_file_is_an_error() {
    let dir = ConfigDir::new(&[]);
    assert_eq!(dir.errors(), ["adjutant.toml: cannot be read: no such file or directory"]);
    dir.write("adjutant.toml", b"a = '\xff'\n");
    assert_eq!(dir.errors(), ["adjutant.toml:1:6: is not UTF-8"]);
}

#[test]
fn a_byte_order_mark_and_windows_line_ends_do_not_matter() {
    let dir = ConfigDir::new(&[(
        "adjutant.toml",
        "\u{feff}[limits]\r\ncap = 7\r\n\r\n[lease]\r\nseconds = 1\r\n",
    )]);
    assert_eq!(dir.errors(), ["adjutant.toml:5:11: lease.seconds: must be at least 2, not 1"]);
    assert_eq!(dir.load().config.limits.cap, 7);
}

#[test]
fn no_error_shows_a_text_that_may_be_secret() {
    let text = "[models.m]\nwire = 'openai'\nbase_url = 'ftp://user:geheim@x'\nheaders = { a = ['geheim'] }\napi_key_env = ['geheim']\n";
    let errors = ConfigDir::new(&[("adjutant.toml", text)]).errors();
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert!(errors.iter().all(|error| !error.contains("geheim")), "{errors:?}");
}

#[test]
fn every_fallback_of_a_circle_is_an_error() {
    let model = |name: &str, fallback: &str| {
        format!("[models.{name}]\nwire = 'openai'\nfallback = ['{fallback}']\n")
    };
    let alias = "default_model = 'a'\n[model_aliases]\nalias = 'c'\n";
    let text = [alias, &model("a", "b"), &model("b", "alias"), &model("c", "a"), &model("d", "a")];
    let error = |line: u8, of: &str, to: &str| {
        format!(
            "adjutant.toml:{line}:13: models.{of}.fallback: {to:?} falls back to {of} again; remove one of the fallbacks"
        )
    };
    let errors = ConfigDir::new(&[("adjutant.toml", &text.concat())]).errors();
    assert_eq!(errors, [error(6, "a", "b"), error(9, "b", "alias"), error(12, "c", "a")]);
}
