//! Two servers and two workers: whoever loses one goes on at the other.

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

/// Asks one server, which is killed while it waits, and then the other.
async fn lose_the_first(
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
        until("the server has looked", async || {
            let looks = "select count(*) from pg_stat_activity where datname = current_database()
                and query like '%wait_1%' and query not like '%pg_stat_activity%' and state = 'idle'";
            fleet.world.count(looks).await > 0
        })
        .await;
        first.signal("KILL");
    };
    let (lost, ()) = tokio::join!(sent, killed);
    assert!(lost.is_err(), "it was answered before the server was lost: {lost:?}");
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
            "a repeated spawn is the same task at either"
        );

        let (second, answer) = lose_the_first(&fleet, [first, second], &wait).await;
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
