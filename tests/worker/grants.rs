//! Workers refuse what a task is not granted, whatever its configuration lists.

use std::sync::Arc;

use adjutant_agent::{FailureKind, Grants, SessionId};
use adjutant_script::{Script, When, text, tool_call};
use adjutant_store::{Actor, NewDelegation, Operator};
use serde_json::{Value, json};

use crate::support::fleet::{CLERK, Done, Fleet, to};
use crate::worker::delegation::agents::{HAND, HEAD, batch, home_with, spawn, wait};

impl Fleet {
    /// Spawns a task as a key with these grants, in a session on this wire.
    async fn give_with(&self, new: NewDelegation, grants: Value) -> Done {
        let session = self.session("openai").await;
        self.give_in(session, new, grants).await
    }

    async fn give_in(&self, session: SessionId, new: NewDelegation, grants: Value) -> Done {
        let grants: Grants = serde_json::from_value(grants).unwrap();
        let actor = Actor {
            tenant: Some("tenant".to_owned()),
            grants: Arc::new(grants),
            ..Actor::default()
        };
        let store = self.world.store.acting_for(Arc::new(actor));
        let spawned = store.delegate(session, &new, &Operator::default(), None).await.unwrap();
        self.done(spawned.id).await
    }
}

fn tools_of(done: &Done, request: usize) -> Vec<String> {
    let tools = &done.requests[request].body.as_ref().unwrap()["tools"];
    let tools = tools.as_array().into_iter().flatten();
    tools.map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_is_not_granted_is_neither_shown_nor_run() {
    let script = Script::new()
        .on(When::assignment("Try"))
        .then(
            tool_call("lookup", json!({"word": "x"}))
                .and_call("pay", json!({"amount": 1}))
                .and_call("shared_context", json!({"action": "list_keys"})),
        )
        .then(text("Not all of it."));
    let fleet = Fleet::new(script).await;
    let _worker = fleet.worker();
    let done = fleet.give_with(to(CLERK, "Try it."), json!({"tools": ["look*"]})).await;
    done.assert_completed("Not all of it.");
    let results = done.results_of(1);
    assert!(!results[0].starts_with("error: "), "{results:?}");
    for (nth, tool) in [(1, "pay"), (2, "shared_context")] {
        let refusal = format!("error: There is no tool \"{tool}\"; your tools are: lookup.");
        assert_eq!(results[nth], refusal);
    }
    assert_eq!(tools_of(&done, 0), ["lookup"]);
    assert!(fleet.tools.calls_of("pay").is_empty(), "the tool's server was not called");
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_children_of_an_agent_are_bound_by_the_grants_of_its_task() {
    let script = Script::new()
        .on(When::assignment("Lead"))
        .then(crate::worker::delegation::agents::delegate(json!({"action": "list_agents"})))
        .then(spawn(CLERK, "Forbidden."))
        .then(batch(HAND, &["Work."]))
        .then(wait("all"))
        .then(text("Done."))
        .on(When::assignment("Work."))
        .then(tool_call("lookup", json!({"word": "x"})).and_call("held", json!({})))
        .then(text("Worked."));
    let fleet = home_with(script, 3, "").await;
    let _worker = fleet.worker();
    let grants = json!({"tools": ["lookup"], "agents": ["h*"]});
    let done = fleet.give_with(to(HEAD, "Lead."), grants.clone()).await;
    done.assert_completed("Done.");
    let listed = &done.results_of(1)[0];
    assert!(listed.contains("\"hand\"") && !listed.contains(CLERK), "{listed}");
    assert!(listed.contains("lookup") && !listed.contains("held"), "{listed}");
    let refused = &done.results_of(2)[0];
    assert!(refused.contains("AGENT_NOT_FOUND"), "{refused}");
    let child = sqlx::query_scalar("select id from task where parent is not null")
        .fetch_one(&fleet.world.sql)
        .await
        .unwrap();
    let child = fleet.done(adjutant_agent::TaskId(child)).await;
    let results = child.results_of(1);
    assert!(!results[0].starts_with("error: "), "{results:?}");
    assert!(results[1].starts_with("error: There is no tool \"held\""), "{results:?}");
    assert_eq!(tools_of(&child, 0), ["lookup"]);
    fleet.close().await;
}

/// The spawn refuses it too; a task may be older than the grants of its model.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_calls_no_model_that_a_task_is_not_granted() {
    let fleet = Fleet::new(Script::new()).await;
    let session = fleet.session("openai").await;
    let task = fleet.delegate(session, to(CLERK, "Think.")).await;
    sqlx::query("update task set config = config || '{\"grants\": {\"models\": [\"anthropic\"]}}'")
        .execute(&fleet.world.sql)
        .await
        .unwrap();
    let _worker = fleet.worker();
    let done = fleet.done(task).await;
    assert_eq!(done.failure, Some(FailureKind::Model), "{done:?}");
    assert!(done.error.as_ref().unwrap().contains("may not use the model \"openai\""), "{done:?}");
    assert!(done.requests.is_empty());
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_and_a_model_of_other_tenants_are_neither_shown_nor_used() {
    let script = Script::new()
        .on(When::assignment("Try"))
        .then(tool_call("secret", json!({})).and_call("read_file", json!({"path": "notes.txt"})))
        .then(text("Tried."));
    let fleet = Fleet::with(script, |model| {
        let config = crate::support::fleet::model_config("theirs", "openai", model, "tenants = ['acme']");
        format!(
            "{config}\n[agents.spy]\ndescription = 'd'\nsystem_prompt = 'p'\ntools = ['secret', 'read_file']\n\
             [agents.guest]\ndescription = 'd'\nsystem_prompt = 'p'\nmodel = 'theirs'\n\
             [tools.http.secret]\ndescription = 'd'\nurl = 'http://127.0.0.1:9/'\nallow_private = true\n\
             tenants = ['acme']\n"
        )
    })
    .await;
    let _worker = fleet.worker();
    let done = fleet.give_with(to("spy", "Try."), json!({})).await;
    done.assert_completed("Tried.");
    let results = done.results_of(1);
    assert_eq!(results[0], "error: There is no tool of this name.");
    assert!(!results[1].starts_with("error: "), "{results:?}");
    assert_eq!(tools_of(&done, 0), ["read_file"]);
    let withheld: i64 =
        fleet.world.count("select count(*) from tool where tenants = array['acme']").await;
    assert_eq!(withheld, 1, "the catalogue says so");
    let guest = fleet.give_with(to("guest", "Think."), json!({})).await;
    assert!(
        guest.error.as_ref().unwrap().contains("may not use the model \"theirs\""),
        "{guest:?}"
    );
    assert!(guest.requests.is_empty());
    fleet.close().await;
}
