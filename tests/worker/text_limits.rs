//! Workers apply the limits of texts of their own config to the calls of agents.

use adjutant_script::{Script, When, text};
use serde_json::{Value, json};

use crate::worker::delegation::agents::{HAND, home_with_limits};

#[tokio::test(flavor = "multi_thread")]
async fn agents_spawn_and_write_texts_as_long_as_the_operator_allows() {
    let spawn = |chars: usize| json!({"action": "spawn", "agent": HAND, "task": "x".repeat(chars)});
    let write = |chars: usize| json!({"action": "write", "key": "a", "value": "x".repeat(chars)});
    let script = Script::new()
        .on(When::system("You are a head."))
        .then(
            text("I try.")
                .and_call("subagent", spawn(8_003))
                .and_call("subagent", spawn(8_004))
                .and_call("shared_context", write(6_003))
                .and_call("shared_context", write(6_004)),
        )
        .then(text("I give up."))
        .on(When::system("You are a hand."))
        .then(text("Done."));
    let limits = "max_task_tokens = 2000\nmax_value_tokens = 1500\nmax_store_tokens = 1600";
    let fleet = home_with_limits(script, 2, limits).await;
    let _worker = fleet.worker();
    let done = fleet.done(fleet.head("openai", "Lead.").await).await;
    done.assert_completed("I give up.");
    let parsed = |content: String| -> Value {
        serde_json::from_str(content.trim_start_matches("error: ")).unwrap()
    };
    let said: Vec<Value> = done.results_of(1).into_iter().map(parsed).collect();
    assert_eq!(said[0]["status"], "running", "{said:?}");
    assert_eq!(said[1]["error"], "TASK_TOO_LARGE");
    assert!(said[1].to_string().contains("2000 tokens, 8003 characters (limits.max_task_tokens)"));
    assert_eq!(said[2]["warning"], "The value has 1500 tokens; the limit is 1500", "{said:?}");
    assert_eq!(said[3]["error"], "VALUE_TOO_LARGE");
    assert!(said[3].to_string().contains("6003 characters (limits.max_value_tokens)"));
    let offered = done.requests[0].body.as_ref().unwrap()["tools"].to_string();
    for requested in ["at most 2000 tokens", "at most 1500 tokens", "at most 1600"] {
        assert!(offered.contains(requested), "{requested}: {offered}");
    }
    fleet.close().await;
}
