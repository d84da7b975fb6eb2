//! Failover between two servers and two workers.

use std::time::Duration;

use adjutant_script::{Script, When, text};
use serde_json::{Value, json};

use crate::support::fleet::{CLERK, Fleet};
use crate::support::test_server::TestServer;
use crate::support::world::until;

const CALL: &str = "/v1/sessions/s/tools/subagent";

async fn call(server: &TestServer, arguments: Value) -> Value {
    server.post(CALL, &arguments.to_string()).await.ok(200)
}

/// Sends a wait to the first server, kills the server, and sends the wait to the second.
async fn wait_with_failover(
    fleet: &Fleet,
    [mut first, second]: [TestServer; 2],
    wait: &Value,
) -> (TestServer, Value) {
    let body = wait.to_string();
    let sent = async {
        let json = ["Content-Type: application/json"];
        first.try_request("POST", CALL, &json, &body).await
    };
    let killed = async {
        until("the server waits", async || {
            let waiting = "select count(*) from pg_stat_activity where datname = current_database()
                and query like '%wait_1%' and query not like '%pg_stat_activity%' and state = 'idle'";
            fleet.world.count(waiting).await > 0
        })
        .await;
        first.signal("KILL");
    };
    let (lost, ()) = tokio::join!(sent, killed);
    assert!(lost.is_err(), "the first server answered before it was killed: {lost:?}");
    assert!(!first.exited().await.success());
    let answer = call(&second, wait.clone()).await;
    (second, answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_loses_its_server_during_a_wait_continues_at_another() {
    for wait in [json!({"action": "wait"}), json!({"action": "wait", "task_ids": ["t_01"]})] {
        let slow = text("Done at last.").delay(Duration::from_secs(3));
        let fleet =
            Fleet::new(Script::new().on(When::assignment("Take your time")).then(slow)).await;
        let _workers = [fleet.worker(), fleet.worker()];
        let config = std::fs::read_to_string(fleet.file("adjutant.toml")).unwrap();
        let [first, second] =
            [TestServer::of(&fleet.world, &config), TestServer::of(&fleet.world, &config)];
        first.post("/v1/sessions", r#"{"session_id": "s"}"#).await.ok(201);
        let spawn = json!({"action": "spawn", "agent": CLERK, "task": "Take your time", "idempotency_key": "once"});
        let spawned = call(&first, spawn.clone()).await;
        assert_eq!(
            call(&second, spawn).await,
            spawned,
            "a repeated spawn returns the same task at both servers"
        );

        let (second, answer) = wait_with_failover(&fleet, [first, second], &wait).await;
        assert_eq!(answer["timed_out"], false);
        let reply = &answer["tasks"][0];
        assert_eq!(
            (&reply["task_id"], &reply["status"]),
            (&json!("t_01"), &json!("completed")),
            "{answer}"
        );
        let collected = call(&second, json!({"action": "collect", "task_id": "t_01"})).await;
        assert_eq!(collected["result"], "Done at last.");
        drop(_workers);
        fleet.close().await;
    }
}
