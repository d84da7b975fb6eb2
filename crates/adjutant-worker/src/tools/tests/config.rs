use std::collections::BTreeSet;
use std::time::Duration;

use adjutant_agent::Replay;

use super::config;
use crate::tools::{BUILT_IN_TOOLS, McpEndpoint, Toolbox, ToolsConfig};

#[test]
fn the_contracts_example_is_understood() {
    let config = config(
        r#"
        [http.lookup]
        description = "Looks a word up"
        url = "http://127.0.0.1:9100/lookup"
        input_schema = { type = "object", properties = { word = { type = "string" } }, required = ["word"] }
        replay = "safe"
        allow_private = true
        headers = { authorization = { env = "LOOKUP_KEY" }, x-plain = "1" }
        timeout_s = 5

        [mcp.files]
        command = ["npx", "-y", "@modelcontextprotocol/server-filesystem", "./data"]

        [mcp.far]
        url = "https://example.com/mcp"
        replay = "safe"
        timeout_s = 1.5
        deny = ["delete"]

        [files]
        root = "."
        "#,
    );
    let lookup = &config.http["lookup"];
    assert_eq!(
        (lookup.replay, lookup.timeout, lookup.max_bytes),
        (Replay::Safe, Duration::from_secs(5), 65536)
    );
    assert!(
        matches!(&config.mcp["files"].endpoint, McpEndpoint::Command { command, .. } if command.len() == 4)
    );
    assert!(matches!(&config.mcp["far"].endpoint, McpEndpoint::Url { .. }));
    assert_eq!(config.mcp["far"].timeout, Duration::from_millis(1500));
    assert!(config.fetch.enabled && !config.fetch.allow_private);
    assert!(config.files.is_some());
    assert_eq!(toml::from_str::<ToolsConfig>("").unwrap(), ToolsConfig::default());
}

#[test]
fn an_invalid_config_is_refused_when_it_is_read() {
    for (text, why) in [
        ("[ftch]", "unknown field `ftch`"),
        ("[fetch]\ntimeout_s = 0", "more than 0"),
        ("[fetch]\ntimeout_s = -1", "more than 0"),
        ("[fetch]\ntimeout_s = nan", "more than 0"),
        ("[fetch]\ntimeout_s = 1e300", "more than 0"),
        ("[fetch]\nmax_bytes = -1", "max_bytes"),
        ("[files]", "missing field `root`"),
        ("[http.x]\nurl = 'http://x'", "missing field `description`"),
        (
            "[http.x]\nurl = 'http://x'\ndescription = ''\nreplay = 'maybe'",
            "unknown variant `maybe`",
        ),
        ("[http.x]\nurl = 'http://x'\ndescription = ''\nheaders = { a = 1 }", "a string or { env"),
        (
            "[http.x]\nurl = 'http://x'\ndescription = ''\nheaders = { a = { env = 'A', b = 'c' } }",
            "a string or { env",
        ),
        ("[mcp.x]", "either `command` or `url`"),
        ("[mcp.x]\ncommand = ['a']\nurl = 'http://x'", "either `command` or `url`"),
        ("[mcp.x]\ncommand = []", "must name a program"),
        ("[mcp.x]\ncommand = ['']", "must name a program"),
        ("[mcp.x]\ncommand = ['a']\nheaders = {}", "`headers` goes with `url`"),
        ("[mcp.x]\nurl = 'http://x'\ncwd = '/'", "go with `command`"),
        ("[mcp.x]\nurl = 'http://x'\nargs = []", "unknown field `args`"),
    ] {
        let error = toml::from_str::<ToolsConfig>(text).unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[tokio::test]
async fn a_tool_that_cannot_be_built_is_refused_at_the_start_by_its_name() {
    let http = |settings: &str| format!("[http.x]\ndescription = 'd'\n{settings}");
    for (text, why) in [
        (http("url = 'nonsense'"), "tools.http.x.url: relative URL"),
        (http("url = 'ftp://example.com'"), "tools.http.x.url: Only http"),
        (
            http("url = 'http://127.0.0.1/'"),
            "tools.http.x.url: The host's address is not a public one.",
        ),
        (
            http("url = 'http://u:p@example.com/'"),
            "tools.http.x.url: A URL must not have a user name",
        ),
        (
            http("url = 'http://example.com'\ninput_schema = { type = 'string' }"),
            "tools.http.x.input_schema",
        ),
        (
            http("url = 'http://example.com'\nheaders = { 'a b' = 'c' }"),
            "tools.http.x.headers.a b: is not a valid",
        ),
        (
            http("url = 'http://example.com'\nheaders = { a = \"b\\nc\" }"),
            "tools.http.x.headers.a: is not a valid",
        ),
        (
            http("url = 'http://example.com'\nheaders = { a = { env = 'ADJUTANT_NOT_SET' } }"),
            "tools.http.x.headers.a: the environment variable ADJUTANT_NOT_SET is not set",
        ),
        (
            "[http.fetch]\ndescription = ''\nurl = 'http://example.com'".into(),
            "tools.http.fetch: this is the name of a built-in tool",
        ),
        (
            "[http.AgentTool]\ndescription = ''\nurl = 'http://example.com'".into(),
            "tools.http.AgentTool: this name is reserved",
        ),
        ("[http.'a b']\ndescription = ''\nurl = 'http://example.com'".into(), "1 to 64 characters"),
        (
            "[files]\nroot = '/no/such/folder'".into(),
            "tools.files.root: /no/such/folder: There is nothing",
        ),
        ("[files]\nroot = '/etc/passwd'".into(), "tools.files.root"),
        ("[mcp.x]\nurl = 'mailto:a'".into(), "tools.mcp.x.url"),
        (
            "[mcp.x]\ncommand = ['a']\nenv = { A = { env = 'ADJUTANT_NOT_SET' } }".into(),
            "tools.mcp.x.env.A",
        ),
    ] {
        let error = Toolbox::start(&config(&text), Vec::new()).err().unwrap().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[tokio::test]
async fn every_built_in_tool_is_registered_by_its_name() {
    let tools = Toolbox::start(&config("[files]\nroot = '.'"), Vec::new()).unwrap();
    let registered: BTreeSet<String> =
        tools.all_definitions().into_iter().map(|tool| tool.name).collect();
    let built_in: BTreeSet<String> =
        BUILT_IN_TOOLS.iter().map(|tool| tool.name.to_owned()).collect();
    assert_eq!(registered, built_in);
}

#[test]
fn a_secret_is_not_shown_by_the_config_that_has_it() {
    let config = config(
        "[http.x]\nurl = 'http://x'\ndescription = ''\nheaders = { a = 'hush', b = { env = 'B' } }",
    );
    let shown = format!("{config:?}");
    assert!(
        !shown.contains("hush") && shown.contains("Literal(..)") && shown.contains("env: \"B\""),
        "{shown}"
    );
}
