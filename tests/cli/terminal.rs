//! What users, models and servers wrote does not control the operator's terminal.

use std::process::{Command, Stdio};

use adjutant_agent::FailureKind;
use anyhow::Result;
use serde_json::{Value, json};

use crate::cli::client_commands::{adjutant, says, stderr, stdout};
use crate::support::canned_server::CannedServer;
use crate::support::test_server::TestServer;
use crate::support::world::World;

/// Clears the screen with C0 and with C1, and turns the order of what follows.
const EVIL: &str = "evil \u{1b}[2J and \u{9b}2J \u{202e}gpj\u{7f}";

/// The same, visible.
const VISIBLE: &str = "evil \\x1b[2J and \\x9b2J \\u{202e}gpj\\x7f";

fn has_control(text: &str) -> bool {
    let is_bidi = |c: char| matches!(c, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}');
    text.chars().any(|c| c.is_control() && !"\n\r\t".contains(c) || is_bidi(c))
}

/// A server with a completed task `t_01` and a failed one `t_02`, whose texts are all evil.
async fn evil_server(world: &World) -> TestServer {
    let server = TestServer::on(world);
    let evil = json!(EVIL);
    let session = json!({"session_id": "default", "metadata": {"note": evil}}).to_string();
    server.post("/v1/sessions", &session).await.ok(201);
    let spawn = json!({"action": "spawn", "agent": "researcher", "task": evil, "label": evil});
    let write = json!({"action": "write", "key": "k", "value": evil});
    let worker = world.worker().await;
    for ends_well in [true, false] {
        let path = "/v1/sessions/default/tools/subagent";
        server.post(path, &spawn.to_string()).await.ok(200);
        let lease = world.claim_one(&worker).await.lease;
        let ending = if ends_well {
            lease.complete(EVIL.to_owned(), None)
        } else {
            lease.fail(FailureKind::Tool, EVIL.to_owned(), Some(EVIL.to_owned()))
        };
        ending.write().await.unwrap();
    }
    server.post("/v1/sessions/default/tools/shared_context", &write.to_string()).await.ok(200);
    server
}

fn run(server: &TestServer, line: &[&str]) -> (String, String) {
    let url = format!("http://{}", server.address);
    let output = tokio::task::block_in_place(|| adjutant(&url, line).output()).unwrap();
    (stdout(&output), stderr(&output))
}

/// What a command prints on a terminal, which is standard output and standard error together.
fn on_terminal(url: &str, line: &[&str]) -> String {
    let command = adjutant(url, line);
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<String> = words.map(|word| format!("'{}'", word.to_string_lossy())).collect();
    let mut script = Command::new("script");
    script.args(["--quiet", "--command", &words.join(" "), "/dev/null"]);
    script.env("ADJUTANT_URL", url).env("NO_COLOR", "1").stdin(Stdio::null());
    let output = tokio::task::block_in_place(|| script.output()).unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_wrote_is_escaped_by_every_command() {
    let world = World::new().await;
    let server = evil_server(&world).await;
    for (line, shows) in [
        (&["status"][..], true),
        (&["status", "t_02"], true),
        (&["tasks"], true),
        (&["tasks", "show", "t_01", "--turns"], true),
        (&["tasks", "show", "t_02"], true),
        (&["watch", "--once"], true),
        (&["wait", "t_01", "t_02"], true),
        (&["collect", "t_02"], true),
        (&["sessions"], false),
        (&["sessions", "show", "default"], false),
        (&["context"], false),
        (&["webhooks"], false),
        (&["agents"], false),
        (&["spawn", EVIL, "x"], true),
        (&["collect", EVIL], true),
    ] {
        let (out, error) = run(&server, line);
        assert!(!has_control(&out) && !has_control(&error), "{line:?}: {out:?} {error:?}");
        let both = out + &error;
        assert_eq!(both.contains("\\x1b[2J"), shows, "{line:?}: {both}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn results_are_unchanged_in_a_pipe_and_escaped_on_a_terminal() {
    let world = World::new().await;
    let server = evil_server(&world).await;
    let url = format!("http://{}", server.address);
    for line in
        [&["read", "t_01"][..], &["context", "read", "k"], &["read", "t_01", "--limit", "100"]]
    {
        assert_eq!(run(&server, line).0, format!("{EVIL}\n"), "{line:?}");
        assert_eq!(on_terminal(&url, line).trim_end(), VISIBLE, "{line:?}");
    }
    let (collected, said) = run(&server, &["collect", "t_01"]);
    assert_eq!(collected, format!("{EVIL}\n"));
    assert!(!has_control(&said), "{said:?}");

    let line = ["read", "t_01", "--json"];
    let (piped, shown) = (run(&server, &line).0, on_terminal(&url, &line));
    assert!(piped.contains('\u{202e}') && piped.contains('\u{9b}'), "unchanged: {piped:?}");
    assert!(!has_control(&shown) && shown.contains("\\u202e"), "{shown:?}");
    let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(value(&piped), value(&shown));
    assert_eq!(value(&shown)["text"], EVIL);
}

#[test]
fn what_a_server_answers_is_escaped_in_errors() -> Result<()> {
    let refusal = json!({"error": "NO", "message": EVIL});
    let server = CannedServer::new([says(400, refusal)]);
    let output = adjutant(&server.url(), &["status", "t_01"]).output()?;
    assert!(stderr(&output).contains(VISIBLE), "{output:?}");
    Ok(())
}

#[test]
fn a_config_is_quoted_escaped() -> Result<()> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), "[agents.\"a\\u001B[2Jb\"]\ndescription = \"x\"\n")?;
    let mut check = adjutant("", &["config", "check", "--config"]);
    let output = check.arg(file.path()).output()?;
    let said = stdout(&output) + &stderr(&output);
    assert!(said.contains("[2Jb") && !has_control(&said), "{said:?}");
    Ok(())
}
