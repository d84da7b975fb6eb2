//! The log entries of calls: names and ids, never texts.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::orchestrator::{Orchestrator, SESSION};

#[derive(Clone, Default)]
struct Said(Arc<Mutex<Vec<u8>>>);

impl Write for Said {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Said {
    /// The log entries of this action, with their fields.
    fn of(&self, action: &str) -> Vec<Value> {
        let all = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let lines =
            all.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["fields"].clone());
        lines.filter(|fields| fields["action"] == action).collect()
    }
}

#[tokio::test]
async fn row_0_36_every_call_is_logged_and_row_0_37_no_text_is() {
    let orchestrator = Orchestrator::in_process().await;
    let said = Said::default();
    let writer = said.clone();
    let log = tracing_subscriber::fmt()
        .json()
        .with_max_level(tracing::Level::DEBUG)
        .with_writer(move || writer.clone())
        .finish();
    let _logging = tracing::subscriber::set_default(log);
    let secret = "hunter2";
    orchestrator
        .call(json!({"action": "spawn", "agent": "writer", "task": secret, "label": secret, "metadata": {"a": secret}}))
        .await;
    orchestrator.status("t_01").await;
    orchestrator
        .claim()
        .await
        .lease
        .complete(secret.to_owned(), Some(secret.to_owned()))
        .write()
        .await
        .unwrap();
    orchestrator.wait(json!({})).await;
    orchestrator.call(json!({"action": "read", "task_id": "t_01"})).await;
    orchestrator.collect("t_01").await;
    orchestrator.context(json!({"action": "write", "key": "k", "value": secret})).await;
    orchestrator.raw(SESSION, "subagent", json!({"action": "status", "task_id": "t_01"})).await;
    orchestrator
        .raw(SESSION, "subagent", json!({"action": secret, "agent": secret, "task_id": secret}))
        .await;
    orchestrator
        .raw(
            SESSION,
            "subagent",
            json!({"action": "spawn", "agent": "x", "task": "x", secret: secret}),
        )
        .await;
    orchestrator.raw(SESSION, secret, json!({"action": "spawn"})).await;

    let all = String::from_utf8(said.0.lock().unwrap().clone()).unwrap();
    assert!(!all.contains(secret), "{all}");
    let spawned = &said.of("spawn")[0];
    assert_eq!(spawned["session.id"], SESSION);
    assert_eq!(spawned["task.number"], "t_01");
    assert_eq!(spawned["agent.name"], "writer");
    assert_eq!(spawned["task.status"], "running");
    assert_eq!(said.of("spawn")[1]["error.code"], "INVALID_ARGUMENT");
    assert_eq!(said.of("status")[0]["turns_used"], 0);
    assert_eq!(said.of("status")[1]["error.code"], "TASK_NOT_FOUND");
    assert_eq!(said.of("wait")[0]["task.number"], "t_01");
    assert_eq!(said.of("read")[0]["task.number"], "t_01");
    let collected = &said.of("collect")[0];
    assert_eq!(
        (&collected["task.status"], &collected["turns_used"]),
        (&json!("completed"), &json!(0))
    );
    assert_eq!(said.of("write").len(), 1);
    assert_eq!(said.of("unknown").len(), 2);
}
