//! Tasks that continue others: the model gets the whole conversation.

use adjutant_agent::{FailureKind, TaskNumber, prompts};
use adjutant_script::{RecordedRequest, Script, When, text};
use adjutant_store::{NewDelegation, NewTask, Operator};
use serde_json::{Value, json};

use crate::support::fleet::{Fleet, WIRES, to};
use crate::support::world::until;

const BRIEF: &str = "[agents.brief]\ndescription = \"Has no time\"\nsystem_prompt = \"You are brief.\"\ntools = [\"lookup\"]\nmax_turns = 2\n";

/// The messages of a request, in one form for both wires.
fn said(request: &RecordedRequest) -> Vec<(String, String)> {
    let body = request.body.as_ref().unwrap();
    let messages = body["messages"].as_array().unwrap();
    let mut said = Vec::new();
    for message in messages.iter().filter(|message| message["role"] != "system") {
        let role = message["role"].as_str().unwrap();
        match &message["content"] {
            Value::String(text) => said.push((role.to_owned(), text.clone())),
            Value::Array(blocks) => {
                said.extend(blocks.iter().filter_map(|block| match block["type"].as_str() {
                    Some("text") => {
                        Some((role.to_owned(), block["text"].as_str().unwrap().to_owned()))
                    }
                    Some("tool_result") => {
                        let content = block["content"].as_str().unwrap();
                        let is_error = block["is_error"] == true;
                        let content =
                            if is_error { format!("Error: {content}") } else { content.to_owned() };
                        Some(("tool".to_owned(), content))
                    }
                    _ => None,
                }))
            }
            Value::Null => {}
            odd @ (Value::Bool(_) | Value::Number(_) | Value::Object(_)) => panic!("{odd}"),
        }
    }
    said
}

fn more(assignment: &str) -> NewDelegation {
    let task = NewTask { assignment: assignment.to_owned(), ..NewTask::default() };
    NewDelegation { task, ..NewDelegation::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_continued_task_has_the_whole_conversation_of_one_that_ran_out_of_turns() {
    let script = Script::new()
        .on(When::assignment("Never end"))
        .turn(1, text("Step 1.").and_call("lookup", json!({})).with_call_id("one"))
        .turn(2, text("Step 2.").and_call("lookup", json!({})).with_call_id("two"))
        .turn(3, text("Step 3.").and_call("lookup", json!({})).with_call_id("three"))
        .turn(4, text("Here it is."))
        .turn(5, text("You are welcome."));
    let fleet = Fleet::with(script, |_| BRIEF.to_owned()).await;
    let _worker = fleet.worker();
    let operator = Operator::default();
    for wire in WIRES {
        let session = fleet.session(wire).await;
        let assignment = format!("Never end ({wire})");
        let first = fleet.delegate(session, to("brief", &assignment)).await;
        fleet.done(first).await.assert_failed(FailureKind::MaxTurns, prompts::MAX_TURNS);
        let store = &fleet.world.store;
        let second = store
            .continue_task(session, TaskNumber(1), &more("End it now."), &operator, None)
            .await;
        let second = fleet.done(second.unwrap().id).await;
        second.assert_completed("Here it is.");
        assert_eq!(second.turns_used, 2, "the limit counts its own turns only");
        let third =
            store.continue_task(session, TaskNumber(2), &more("Thank you."), &operator, None).await;
        fleet.done(third.unwrap().id).await.assert_completed("You are welcome.");

        let requests = fleet.model.requests_of(&assignment);
        assert_eq!(requests.len(), 5);
        let not_made = format!("Error: {}", prompts::NOT_MADE);
        let found = said(&requests[1]).last().unwrap().1.clone();
        let expected = [
            ("user", assignment.as_str()),
            ("assistant", "Step 1."),
            ("tool", &found),
            ("assistant", "Step 2."),
            ("tool", &not_made),
            ("user", "End it now."),
            ("assistant", "Step 3."),
            ("tool", &found),
            ("assistant", "Here it is."),
            ("user", "Thank you."),
        ];
        let expected = expected.map(|(role, text)| (role.to_owned(), text.to_owned()));
        assert_eq!(said(&requests[2]), expected[..6], "{wire}");
        assert_eq!(said(&requests[4]), expected, "{wire}");
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_was_cancelled_before_it_ran_can_be_continued() {
    let script = Script::new().on(When::last("Now do it.")).answer(text("Done."));
    let fleet = Fleet::with(script, |_| BRIEF.to_owned()).await;
    fleet.world.store.set_cap(0).await.unwrap();
    let _worker = fleet.worker();
    for wire in WIRES {
        let session = fleet.session(wire).await;
        let first = fleet.delegate(session, to("brief", &format!("Wait ({wire})"))).await;
        fleet.world.store.cancel(first).await.unwrap();
        let operator = Operator::default();
        let store = &fleet.world.store;
        store
            .continue_task(session, TaskNumber(1), &more("Now do it."), &operator, None)
            .await
            .unwrap();
    }
    fleet.world.store.set_cap(30).await.unwrap();
    fleet.model.wait_for_requests(2).await;
    for wire in WIRES {
        let assignment = format!("Wait ({wire})");
        let expected = [
            ("user", assignment.as_str()),
            ("assistant", prompts::EMPTY_ANSWER),
            ("user", "Now do it."),
        ];
        let expected = expected.map(|(role, text)| (role.to_owned(), text.to_owned()));
        assert_eq!(
            said(&fleet.model.requests_of(&assignment)[0]),
            expected,
            "the sides take turns"
        );
    }
    until("both have ended", async || {
        fleet.world.count("select count(*) from task where finished_at is null").await == 0
    })
    .await;
    fleet.close().await;
}
