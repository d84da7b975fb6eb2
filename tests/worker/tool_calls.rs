//! Tool calls of models: valid, invalid and concurrent ones.

use adjutant_agent::{FailureKind, prompts};
use adjutant_script::{Script, When, raw_tool_call, text, tool_call};
use serde_json::{Value, json};

use crate::support::fleet::{CLERK, Fleet, WIRES, model_config};
use crate::support::tool_server::LONG;
use crate::support::world::until;

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_call_is_an_error_for_the_model_and_the_loop_continues() {
    let then = "I see.";
    let script = Script::new()
        .on(When::assignment("cut off"))
        .then(raw_tool_call("lookup", "{\"word\": \"led"))
        .then(text(then))
        .on(When::assignment("a list"))
        .then(raw_tool_call("lookup", "[1, 2]"))
        .then(text(then))
        .on(When::assignment("invented"))
        .then(tool_call("divine", json!({})))
        .then(text(then))
        .on(When::assignment("forbidden"))
        .then(tool_call("pay", json!({"amount": 1})))
        .then(text(then))
        .on(When::assignment("to delegate"))
        .then(tool_call("subagent", json!({"action": "list_agents"})))
        .then(text(then))
        .on(When::assignment("a bad key"))
        .then(tool_call("shared_context", json!({"action": "write", "key": "NO", "value": "x"})))
        .then(text(then));
    let fleet = Fleet::with(script, |_| {
        "[agents.reader]\ndescription = \"Only reads\"\nsystem_prompt = \"You read.\"\ntools = [\"lookup\", \"subagent\", \"shared_context\"]\n".to_owned()
    })
    .await;
    let _worker = fleet.worker();
    let not_made =
        "error: The call was not made: its arguments are not a JSON object, or were cut off.";
    let no_tool = |name: &str| {
        format!("error: There is no tool {name:?}; your tools are: lookup, shared_context.")
    };
    let bad_key = json!({"error": "INVALID_KEY"});
    let mut tasks = Vec::new();
    for (assignment, result) in [
        ("Make a call that is cut off", not_made.to_owned()),
        ("Make a call with a list", not_made.to_owned()),
        ("Make a call that is invented", no_tool("divine")),
        ("Make a call that is forbidden", no_tool("pay")),
        ("Make a call to delegate", no_tool("subagent")),
        ("Make a call with a bad key", format!("error: {bad_key}")),
    ] {
        for task in fleet.give_on_both("reader", assignment).await {
            tasks.push((task, result.clone()));
        }
    }
    for (task, result) in tasks {
        let done = fleet.done(task).await;
        done.assert_completed(then);
        let stored = done.results_of(1);
        if result.contains("INVALID_KEY") {
            assert!(stored[0].starts_with("error: {\"error\":\"INVALID_KEY\""), "{stored:?}");
        } else {
            assert_eq!(stored, [result], "{}", done.assignment);
        }
        assert_eq!(
            fleet.tools.calls_by(task, "lookup").len() + fleet.tools.calls_by(task, "pay").len(),
            0
        );
        assert_offered(&done.requests[0].body, &["lookup", "shared_context"]);
    }
    fleet.close().await;
}

/// The names of the tools that a request has, on either wire.
#[track_caller]
fn assert_offered(body: &Option<std::sync::Arc<Value>>, names: &[&str]) {
    let tools = body.as_ref().unwrap()["tools"].as_array().unwrap().clone();
    let name = |tool: &Value| {
        [&tool["name"], &tool["function"]["name"]]
            .into_iter()
            .find_map(Value::as_str)
            .map(str::to_owned)
    };
    let mut offered: Vec<String> = tools.iter().filter_map(name).collect();
    offered.sort();
    assert_eq!(offered, names);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_tool_is_an_error_for_the_model_and_the_loop_continues() {
    let script = Script::new()
        .on(When::any())
        .then(tool_call("broken", json!({})))
        .then(tool_call("lookup", json!({"word": "instead"})))
        .then(text("I found it elsewhere: {last_tool_result}"));
    let fleet = Fleet::new(script).await;
    let _worker = fleet.worker();
    for done in fleet.run_on_both(CLERK, "Use a broken tool").await {
        done.assert_completed("I found it elsewhere: lookup says {\"word\":\"instead\"}");
        let error = "error: The tool answered 500 Internal Server Error: The index is damaged.";
        assert_eq!(done.results_of(1), [error]);
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_one_answer_run_side_by_side_and_their_results_keep_its_order() {
    let script = Script::new()
        .on(When::any())
        .then(
            tool_call("meet", json!({"at": "{assignment}"}))
                .and_call("lookup", json!({"word": "b"}))
                .and_call("meet", json!({"at": "{assignment}"}))
                .and_call("shared_context", json!({"action": "list_keys"})),
        )
        .then(text("{last}"));
    let fleet = Fleet::new(script).await;
    let _worker = fleet.worker();
    for done in fleet.run_on_both(CLERK, "Meet").await {
        let met = format!("meet says {{\"at\":\"{}\"}}", done.assignment);
        let results = done.results_of(1);
        assert_eq!(results[..3], [met.clone(), "lookup says {\"word\":\"b\"}".to_owned(), met]);
        done.assert_completed(&results.join("\n"));
        assert_eq!(done.turns.len(), 2);
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_below_the_root_are_read_and_nothing_else_is_reached() {
    let script = Script::new()
        .on(When::assignment("the notes"))
        .then(tool_call("read_file", json!({"path": "notes.txt"})))
        .then(text("{last_tool_result}"))
        .on(When::assignment("the config"))
        .then(tool_call("read_file", json!({"path": "../adjutant.toml"})))
        .then(text("I could not."))
        .on(When::assignment("this machine"))
        .then(tool_call("fetch", json!({"url": "http://127.0.0.1:{turn}/secrets"})))
        .then(tool_call("fetch", json!({"url": "http://localhost/secrets"})))
        .then(text("I could not."));
    let fleet = Fleet::new(script).await;
    let _worker = fleet.worker();
    for done in fleet.run_on_both(CLERK, "Read the notes").await {
        assert!(
            done.result.as_deref().is_some_and(|read| read.contains("What the notes say.")),
            "{done:#?}"
        );
    }
    for done in fleet.run_on_both(CLERK, "Read the config").await {
        done.assert_completed("I could not.");
        assert!(done.turns[0].tool_results[0].is_error, "{:?}", done.results_of(1));
        assert!(!done.results_of(1)[0].contains("MODEL_KEY"), "{:?}", done.results_of(1));
    }
    for done in fleet.run_on_both(CLERK, "Fetch from this machine").await {
        done.assert_completed("I could not.");
        for turn in [1, 2] {
            let result = &done.results_of(turn)[0];
            assert!(
                result.starts_with("error: ") && result.contains("not a public one"),
                "{result}"
            );
        }
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn near_the_context_limit_old_results_leave_the_requests_and_stay_stored() {
    let words = ["a", "b", "c", "d"];
    let mut script = Script::new().on(When::any());
    for word in words {
        script = script.then(tool_call("long", json!({"word": word})));
    }
    let fleet = Fleet::with(script.then(text("Read.")), |server| {
        let tight = "context_window = 5000\nmax_tokens = 500\ncompaction = \"off\"";
        WIRES.map(|wire| model_config(&format!("{wire}_tight"), wire, server, tight)).concat()
    })
    .await;
    let _worker = fleet.worker();
    for wire in WIRES {
        let task =
            fleet.give(&format!("{wire}_tight"), CLERK, &format!("Read it all ({wire}).")).await;
        let done = fleet.done(task).await;
        done.assert_completed("Read.");
        for (turn, word) in (1..).zip(words) {
            assert_eq!(done.results_of(turn), [word.repeat(LONG)], "the store has it in full");
        }
        let sent = |nth: usize| done.requests[nth].body.as_ref().unwrap().to_string();
        let left_out = format!("[A result of {LONG} characters stood here.");
        assert!(!sent(1).contains(&left_out), "there was room");
        assert!(sent(4).contains(&left_out), "{wire}: there is no room");
        assert!(sent(4).contains(&"d".repeat(LONG)), "the latest is whole");
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_sees_its_prompt_with_our_suffix_and_the_task_and_nothing_else() {
    let fleet = Fleet::new(Script::new().on(When::any()).then(text("Seen."))).await;
    let _worker = fleet.worker();
    for (done, wire) in fleet.run_on_both(CLERK, "Look around").await.into_iter().zip(WIRES) {
        done.assert_completed("Seen.");
        let body = done.requests[0].body.clone().unwrap();
        let system = match wire {
            "openai" => body["messages"][0]["content"].clone(),
            _ => body["system"][0]["text"].clone(),
        };
        assert_eq!(system, format!("You are a clerk.\n\n{}", prompts::SUFFIX));
        let messages = body["messages"].as_array().unwrap();
        let result = messages.iter().filter(|message| message["role"] != "system").count();
        assert_eq!(result, 1, "{messages:?}");
        assert_eq!(body["model"], format!("{wire}-test"));
    }
    fleet.close().await;
}

/// Row 0.31: the only way in which a tool ends a task. An error of the tool itself is a result for
/// the model (G18).
#[tokio::test(flavor = "multi_thread")]
async fn a_tool_whose_result_cannot_be_stored_ends_the_task_with_the_turn_in_its_error() {
    let script = Script::new()
        .on(When::assignment("in vain"))
        .then(text("First.").and_call("lookup", json!({})))
        .then(text("Second.").and_call("lookup", json!({"word": "unkeepable"})));
    let fleet = Fleet::new(script).await;
    for statement in [
        "create function refuse_it() returns trigger language plpgsql as
         $$ begin if new.turn = 2 then raise exception 'unkeepable'; end if; return new; end $$",
        "create trigger refuse_it before insert on tool_result for each row execute function refuse_it()",
    ] {
        sqlx::query(statement).execute(&fleet.world.sql).await.unwrap();
    }
    let _worker = fleet.worker();
    for done in fleet.run_on_both(CLERK, "Look it up in vain.").await {
        assert_eq!(done.failure, Some(FailureKind::Tool));
        assert!(
            done.error.as_ref().unwrap().starts_with("Tool execution error in turn 2: "),
            "{:?}",
            done.error
        );
        assert_eq!((done.turns_used, done.partial_result.as_deref()), (2, Some("Second.")));
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_makes_at_most_32_calls_8_at_a_time() {
    let mut many = tool_call("held", json!({"nth": 1}));
    for nth in 2..=40 {
        many = many.and_call("held", json!({"nth": nth}));
    }
    let script = Script::new().on(When::any()).then(many).then(text("Done."));
    let fleet = Fleet::new(script).await;
    let _worker = fleet.worker();
    let task = fleet.give("openai", CLERK, "Call often.").await;
    until("calls are held", async || fleet.tools.calls_of("held").len() >= 8).await;
    fleet.tools.let_go();
    let done = fleet.done(task).await;
    done.assert_completed("Done.");
    assert_eq!(fleet.tools.calls_by(task, "held").len(), 32);
    assert_eq!(fleet.tools.most_at_once(), 8);
    let results = done.results_of(1);
    assert!(results[..32].iter().all(|result| result.starts_with("held says")), "{results:?}");
    assert_eq!(results[32..], vec!["nothing"; 8], "what is not made is not stored");
    let request = done.requests[1].body.as_ref().unwrap().to_string();
    assert_eq!(request.matches(prompts::TOO_MANY_CALLS).count(), 8, "{request}");
}
