//! `@copilotkit/aimock`: another project's mock of both wires. It checks the key of every request,
//! refuses requests without a fixture, and records all of them.

use adjutant_agent::{FailureKind, Outcome, StopReason};
use serde_json::Value;

use crate::real::program::{EVERYTHING, Program, get, installed, node};
use crate::real::site::Site;
use crate::support::world::until;

const WIRES: [&str; 2] = ["openai", "anthropic"];
const KEY: &str = "a-key-that-is-checked";

async fn aimock() -> Program {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/real/aimock.json");
    let mut command = node("node_modules/@copilotkit/aimock/dist/cli.js");
    command.args([
        "--port",
        "0",
        "--validate-on-load",
        "--chunk-size",
        "5",
        "--fixtures",
        fixtures,
    ]);
    Program::start(command.env("AIMOCK_API_KEYS", KEY)).await
}

/// A config with the tools of a real MCP server and an agent on one wire.
async fn site(aimock: &Program, wire: &str, key: &str) -> Site {
    let path = if wire == "openai" { "/v1" } else { "" };
    let site = Site::new(&format!(
        r#"
[models.mock]
wire = "{wire}"
base_url = "http://{}{path}"
api_key_file = "{{folder}}/key"
prices = {{ input = 1.0, output = 2.0 }}

[tools.mcp.everything]
command = ["node", "{}", "stdio"]

[agents.agent]
model = "mock"
description = "Does as it is told"
system_prompt = "Do as you are told."
tools = ["get-sum", "trigger-long-running-operation", "shared_context"]
"#,
        aimock.address(),
        installed(EVERYTHING).display(),
    ))
    .await;
    std::fs::write(site.folder().join("key"), key).unwrap();
    site
}

/// The recorded requests, in their order.
async fn journal(aimock: &Program) -> Vec<Value> {
    let journal =
        get(&aimock.address(), "/__aimock/journal", &format!("authorization: Bearer {KEY}\r\n"))
            .await;
    journal.as_array().unwrap().iter().filter(|entry| entry["method"] == "POST").cloned().collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-real"]
async fn a_loop_with_tools_completes_on_both_wires_with_the_usage_that_was_given() {
    for wire in WIRES {
        let aimock = aimock().await;
        let site = site(&aimock, wire, KEY).await;
        let _worker = site.worker();
        site.tools(&["get-sum"]).await;
        let task = site.delegate("agent", "Add 19 and 23.").await;
        let (status, result) = site.completed(&task).await;
        assert_eq!(result, "It is forty-two.");
        assert_eq!((status.input_tokens, status.output_tokens), (280, 26), "{wire}");
        assert_eq!(status.cost_nanousd, 280 * 1000 + 26 * 2000);
        assert_eq!((status.attempt, status.turns_used), (1, 2));
        let results = site.tool_results(&task).await;
        assert_eq!(
            results[0],
            ("get-sum".to_owned(), Ok("The sum of 19 and 23 is 42.".to_owned()))
        );
        assert!(results[1].0 == "shared_context" && results[1].1.is_ok(), "{results:?}");
        assert_eq!(site.world.count("select count(*) from context_entry").await, 1);
        assert_eq!(journal(&aimock).await.len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-real"]
async fn a_rate_limit_an_error_and_a_broken_stream_cost_three_calls_and_no_task() {
    for wire in WIRES {
        let aimock = aimock().await;
        let site = site(&aimock, wire, KEY).await;
        let _worker = site.worker();
        let task = site.delegate("agent", "Be difficult.").await;
        let (status, result) = site.completed(&task).await;
        assert_eq!(result, "At last.");
        assert_eq!((status.attempt, status.turns_used), (1, 1));
        let calls = journal(&aimock).await;
        let statuses: Vec<_> =
            calls.iter().map(|call| call["response"]["status"].as_i64().unwrap()).collect();
        assert_eq!(statuses, [429, 500, 200, 200], "{wire}");
        let at = |call: usize| calls[call]["timestamp"].as_i64().unwrap();
        // The mock sent `retry-after: 1`.
        assert!(at(1) - at(0) >= 1000, "called again after {} ms", at(1) - at(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-real"]
async fn a_worker_killed_while_a_tool_runs_is_replaced_and_no_stored_answer_is_requested_again() {
    for wire in WIRES {
        let aimock = aimock().await;
        let site = site(&aimock, wire, KEY).await;
        let mut first = site.worker();
        site.tools(&["trigger-long-running-operation"]).await;
        let task = site.delegate("agent", "Take your time.").await;
        until("the tool runs", async || site.turns(&task).await.len() == 1).await;
        first.kill();
        assert_eq!(site.turns(&task).await[0].tool_results, []);
        let _second = site.worker();
        let (status, result) = site.completed(&task).await;
        assert_eq!(result, "It took four seconds.");
        assert_eq!((status.attempt, status.turns_used), (2, 2));
        assert_eq!(journal(&aimock).await.len(), 2, "{wire}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-real"]
async fn an_answer_at_the_limit_of_tokens_is_known_as_one() {
    for wire in WIRES {
        let aimock = aimock().await;
        let site = site(&aimock, wire, KEY).await;
        let _worker = site.worker();
        let task = site.delegate("agent", "Stop early.").await;
        site.outcome(&task).await;
        let turns = site.turns(&task).await;
        assert_eq!(turns[0].turn.answer.stop, StopReason::MaxTokens, "{wire}");
        assert_eq!(turns[0].turn.answer.text().as_deref(), Some("So far I have"));
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-real"]
async fn a_wrong_key_and_an_unknown_request_fail_the_task_and_no_key_is_seen() {
    for wire in WIRES {
        let aimock = aimock().await;
        for (key, assignment) in
            [("a-wrong-key-of-ours", "Add 19 and 23."), (KEY, "Something else.")]
        {
            let site = site(&aimock, wire, key).await;
            let worker = site.worker();
            let task = site.delegate("agent", assignment).await;
            let (status, outcome) = site.outcome(&task).await;
            let Outcome::Failed { failure: FailureKind::Model, error, .. } = outcome else {
                panic!("{outcome:?}")
            };
            assert!(error.starts_with("Model API error: "), "{error}");
            assert!(!error.contains(key), "{error}");
            assert!(!worker.stderr().contains(key));
            assert_eq!((status.attempt, status.turns_used), (1, 0));
            println!("{wire}: {error}");
        }
    }
}
