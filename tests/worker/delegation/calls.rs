//! The actions of an agent's delegation tool, and their answers.

use adjutant_script::{RecordedRequest, Script, When, text};
use serde_json::{Value, json};

use crate::support::fleet::WIRES;
use crate::worker::delegation::agents::{
    HAND, HEAD, batch, collect, delegate, home, results, spawn, wait,
};

/// The tools that a request offers, by name.
fn offered(request: &RecordedRequest) -> Vec<String> {
    let body = request.body.as_ref().unwrap();
    let name = |tool: &Value| {
        tool["name"].as_str().or(tool["function"]["name"].as_str()).unwrap().to_owned()
    };
    body["tools"].as_array().map(|tools| tools.iter().map(name).collect()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_sees_its_own_prompt_and_task_and_nothing_else() {
    let script = Script::new()
        .on(When::system("You are a head."))
        .then(text("A secret of mine.").and_call(
            "subagent",
            json!({"action": "spawn", "agent": HAND, "task": "Dig ({assignment}).", "label": "dig"}),
        ))
        .then(wait("any"))
        .then(delegate(collect(0)))
        .then(text("I got: {results/0/result}"))
        .on(When::system("You are a hand."))
        .then(text("A stone."));
    let fleet = home(script, 2).await;
    let _worker = fleet.worker();
    for done in fleet.run_on_both(HEAD, "Lead").await {
        done.assert_completed("I got: A stone.");
        assert_eq!(offered(&done.requests[0]), ["shared_context", "subagent"]);
        assert_eq!(
            results(&done, 1),
            [json!({"task_id": "t_02", "agent": HAND, "status": "running", "label": "dig"})]
        );
        let ended = json!({"task_id": "t_02", "agent": HAND, "status": "completed", "label": "dig", "turns_used": 1});
        assert_eq!(results(&done, 2), [json!({"tasks": [ended.clone()], "timed_out": false})]);
        let mut collected = ended;
        collected["result"] = json!("A stone.");
        assert_eq!(results(&done, 3), [collected]);

        let hand = fleet.look_at(fleet.children(done.task).await[0]).await;
        assert_eq!(hand.assignment, format!("Dig ({}).", done.assignment));
        assert!(!offered(&hand.requests[0]).contains(&"subagent".to_owned()));
        let sent = hand.requests[0].body.as_ref().unwrap().to_string();
        assert!(
            sent.contains("You are a hand.") && !sent.contains("secret") && !sent.contains("head"),
            "{sent}"
        );
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_call_is_an_error_with_its_code_and_the_parent_continues() {
    let refused = [
        (
            json!({"action": "spawn", "agent": "nobody", "task": "x"}),
            "AGENT_NOT_FOUND",
            "Agent not found: nobody",
        ),
        (
            json!({"action": "spawn", "agent": HAND, "task": ""}),
            "INVALID_ARGUMENT",
            "task: is required and must not be empty",
        ),
        (
            json!({"action": "spawn", "agent": HAND, "task": "x".repeat(4_004)}),
            "TASK_TOO_LARGE",
            "",
        ),
        (
            json!({"action": "spawn", "agent": HAND, "task": "x", "depends_on": ["t_01"]}),
            "TASK_NOT_FOUND",
            "depends_on: task not found: t_01",
        ),
        (json!({"action": "status", "task_id": "t_01"}), "TASK_NOT_FOUND", "Task not found: t_01"),
        (json!({"action": "cancel", "task_id": "t_01"}), "TASK_NOT_FOUND", "Task not found: t_01"),
        (json!({"action": "collect", "task_id": "t_99"}), "TASK_NOT_FOUND", "Task not found: t_99"),
        (json!({"action": "read", "task_id": "t_01"}), "TASK_NOT_FOUND", "Task not found: t_01"),
        (json!({"action": "wait", "task_ids": ["t_01"]}), "TASK_NOT_FOUND", "Task not found: t_01"),
        (
            json!({"action": "define", "name": "a", "description": "b", "system_prompt": "c"}),
            "INVALID_ACTION",
            "",
        ),
        (json!({"action": "wait", "mode": "some"}), "INVALID_ARGUMENT", "mode: must be any or all"),
        (
            json!({"action": "batch", "tasks": [{"agent": HAND, "task": "x"}, {"agent": "nobody", "task": "x"}]}),
            "AGENT_NOT_FOUND",
            "Agent not found: nobody",
        ),
    ];
    let all = refused
        .iter()
        .fold(text("I try."), |answer, (call, _, _)| answer.and_call("subagent", call.clone()));
    let script = Script::new().on(When::any()).then(all).then(text("I give up."));
    let fleet = home(script, 2).await;
    let _worker = fleet.worker();
    let done = fleet.done(fleet.head("openai", "Lead.").await).await;
    done.assert_completed("I give up.");
    for ((call, code, message), result) in refused.iter().zip(done.results_of(1)) {
        let result: Value = serde_json::from_str(result.strip_prefix("error: ").unwrap()).unwrap();
        assert_eq!(result["error"], *code, "{call}: {result}");
        assert!(message.is_empty() || result["message"] == *message, "{call}: {result}");
    }
    assert!(fleet.children(done.task).await.is_empty(), "of a batch all are made, or none");
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_lists_polls_reads_and_cancels() {
    let script = Script::new()
        .on(When::system("You are a head."))
        .then(delegate(json!({"action": "list_agents"})).and_call(
            "subagent",
            json!({"action": "batch", "tasks": [
                {"agent": HAND, "task": "Say it.", "name": "first"},
                {"agent": HAND, "task": "Hang.", "depends_on": ["first"]},
            ]}),
        ))
        .then(wait("any"))
        .then(
            delegate(json!({"action": "collect", "task_id": "t_02"}))
                .and_call("subagent", json!({"action": "collect", "task_id": "t_03"}))
                .and_call("subagent", json!({"action": "status", "task_id": "t_03"})),
        )
        .then(
            delegate(json!({"action": "read", "task_id": "t_02", "offset": 2, "limit": 3}))
                .and_call("subagent", json!({"action": "collect", "task_id": "t_02"}))
                .and_call("subagent", json!({"action": "cancel", "task_id": "t_03"})),
        )
        .then(
            delegate(json!({"action": "collect", "task_id": "t_03"}))
                .and_call("subagent", json!({"action": "wait"})),
        )
        .then(text("Enough."))
        .on(When::assignment("Say it."))
        .then(text("0123456789"))
        .on(When::assignment("Hang."))
        .then(text("Too late.").delay(std::time::Duration::from_secs(600)));
    let fleet = home(script, 2).await;
    let _worker = fleet.worker();
    let done = fleet.done(fleet.head("anthropic", "Lead.").await).await;
    done.assert_completed("Enough.");
    let [agents, _] = &results(&done, 1)[..] else { panic!("{done:#?}") };
    let hand =
        agents["agents"].as_array().unwrap().iter().find(|agent| agent["name"] == HAND).unwrap();
    assert_eq!(
        *hand,
        json!({"name": HAND, "description": "Works", "model": "anthropic", "max_turns": 10, "tools": ["held", "lookup"]})
    );
    let result = done.results_of(3);
    assert_eq!(serde_json::from_str::<Value>(&result[0]).unwrap()["result"], "0123456789");
    assert!(
        result[1].contains("TASK_NOT_READY") && result[1].contains("wait for it"),
        "{}",
        result[1]
    );
    assert_eq!(serde_json::from_str::<Value>(&result[2]).unwrap()["status"], "running");
    let result = done.results_of(4);
    assert_eq!(
        serde_json::from_str::<Value>(&result[0]).unwrap(),
        json!({"task_id": "t_02", "offset": 2, "text": "234", "next_offset": 5, "result_chars": 10})
    );
    assert!(result[1].contains("TASK_NOT_FOUND"), "it was collected: {}", result[1]);
    let cancelled = serde_json::from_str::<Value>(&result[2]).unwrap();
    assert_eq!(
        (&cancelled["cancelled"], &cancelled["error"]),
        (&json!(true), &json!("Task cancelled"))
    );
    let [collected, nothing] = &results(&done, 5)[..] else { panic!("{done:#?}") };
    assert_eq!(
        (&collected["status"], &collected["error"]),
        (&json!("failed"), &json!("Task cancelled"))
    );
    assert_eq!(*nothing, json!({"tasks": [], "timed_out": false}), "nothing is left to wait for");
    fleet.world.assert_ended_once().await;
    fleet.model.finish();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_child_wakes_its_parent_with_its_error() {
    let script = Script::new()
        .on(When::system("You are a head."))
        .then(batch(HAND, &["Break.", "Hold."]))
        .then(wait("all"))
        .then(delegate(collect(0)).and_call("subagent", collect(1)))
        .then(text("{results/0/failure}: {results/0/error}; {results/1/result}"))
        .on(When::assignment("Break."))
        .then(adjutant_script::status(400).with_error("bad", "no"))
        .on(When::assignment("Hold."))
        .then(text("Held."));
    let fleet = home(script, 2).await;
    let _worker = fleet.worker();
    for wire in WIRES {
        let done = fleet.done(fleet.head(wire, &format!("Lead ({wire}).")).await).await;
        let result = done.result.clone().unwrap();
        assert!(
            result.starts_with("model: Model API error: ") && result.ends_with("; Held."),
            "{result}"
        );
        assert_eq!(fleet.world.count("select count(*) from notification n join task t on t.id = n.task where t.parent is not null").await, 0);
    }
    fleet.world.assert_ended_once().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grandchild_is_unknown_to_its_grandparent() {
    let script = Script::new()
        .on(When::assignment("Lead."))
        .then(spawn(HEAD, "Lead on."))
        .then(wait("all"))
        .then(
            delegate(json!({"action": "status", "task_id": "t_03"}))
                .and_call("subagent", json!({"action": "cancel", "task_id": "t_03"})),
        )
        .then(text("I see."))
        .on(When::assignment("Lead on."))
        .then(spawn(HAND, "Work."))
        .then(wait("all"))
        .then(text("Done."))
        .on(When::assignment("Work."))
        .then(text("Worked."));
    let fleet = home(script, 3).await;
    let _worker = fleet.worker();
    let done = fleet.done(fleet.head("openai", "Lead.").await).await;
    done.assert_completed("I see.");
    assert!(done.results_of(3).iter().all(|result| result.contains("TASK_NOT_FOUND")), "{done:#?}");
    fleet.close().await;
}
