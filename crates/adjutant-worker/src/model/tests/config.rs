use super::*;

#[track_caller]
fn problem(config_of: Value) -> String {
    Model::new("main", &config(config_of), client()).unwrap_err().to_string()
}

fn url(config: Value) -> String {
    model(config).url.to_string()
}

#[test]
fn base_urls_are_taken_as_the_vendors_sdks_take_them() {
    let anthropic = |base: &str| url(json!({"wire": "anthropic", "base_url": base}));
    assert_eq!(url(json!({"wire": "anthropic"})), "https://api.anthropic.com/v1/messages");
    assert_eq!(anthropic("http://127.0.0.1:9000"), "http://127.0.0.1:9000/v1/messages");
    assert_eq!(anthropic("http://127.0.0.1:9000/"), "http://127.0.0.1:9000/v1/messages");
    let openai = |base: &str| url(json!({"wire": "openai", "base_url": base}));
    assert_eq!(url(json!({"wire": "openai"})), "https://api.openai.com/v1/chat/completions");
    assert_eq!(openai("http://127.0.0.1:9000/v1"), "http://127.0.0.1:9000/v1/chat/completions");
    assert_eq!(openai("http://127.0.0.1:9000/v1/"), "http://127.0.0.1:9000/v1/chat/completions");
    assert_eq!(openai("https://x/d?api-version=1"), "https://x/d/chat/completions?api-version=1");
}

#[test]
fn a_bad_setting_is_named() {
    for (setting, value) in [
        ("base_url", json!("ftp://x")),
        ("base_url", json!("x")),
        ("api_key_env", json!("ADJUTANT_NO_SUCH_KEY")),
        ("api_key_file", json!("/no/such/file")),
        ("max_tokens", json!(0)),
        ("temperature", json!(-1)),
        ("context_window", json!(0)),
        ("max_concurrency", json!(0)),
        ("requests_per_minute", json!(0)),
        ("tokens_per_minute", json!(0)),
        ("fallback_after_s", json!(0)),
        ("timeout_s", json!(0)),
        ("idle_timeout_s", json!(-1)),
    ] {
        let problem = problem(json!({"wire": "openai", setting: value}));
        assert!(problem.starts_with(&format!("models.main.{setting}: ")), "{problem}");
    }
    let prices = problem(json!({"wire": "openai", "prices": {"output": -1}}));
    assert!(prices.starts_with("models.main.prices.output: "), "{prices}");
    let reserved = problem(json!({"wire": "openai", "extra_body": {"messages": []}}));
    assert!(reserved.starts_with("models.main.extra_body.messages: "), "{reserved}");
    let header = problem(json!({"wire": "openai", "headers": {"a b": "c"}}));
    assert!(header.starts_with("models.main.headers.a b: "), "{header}");
    let both =
        problem(json!({"wire": "openai", "api_key_env": "PATH", "api_key_file": "/dev/null"}));
    assert!(both.starts_with("models.main.api_key_file: "), "{both}");
}

#[test]
fn an_unknown_setting_is_an_error() {
    let unknown = serde_json::from_value::<ModelConfig>(json!({"wire": "openai", "max_token": 1}));
    assert!(unknown.unwrap_err().to_string().contains("max_token"));
}

#[test]
fn debug_output_contains_no_key() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), KEY).unwrap();
    let config = config(json!({
        "wire": "openai", "base_url": format!("http://u:{KEY}@x/v1"), "api_key_file": file.path(),
        "headers": {"api-key": KEY},
    }));
    let model = Model::new("main", &config, client()).unwrap();
    assert_eq!(format!("{:?}", config.headers), "{\"api-key\": ***}");
    assert!(!format!("{config:?}").contains(KEY));
    assert!(!format!("{model:?} {:?} {:?}", model.key, model.headers).contains(KEY));
}
