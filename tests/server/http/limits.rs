//! Rate limits and the limits of the config.

use serde_json::{Value, json};

use crate::support::test_server::TestServer;
use crate::support::world::{World, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_limited_tenant_gets_a_retry_after() {
    let world = World::new().await;
    // One request now and the next one in hours, so that a slow machine cannot make two.
    let server = TestServer::with(&world, "[server]\ntenant_requests_per_s = 0.0001\n");
    server.get("/v1/tools").await.ok(200);
    let answer = server.get("/v1/tools").await;
    answer.refused(429, "RATE_LIMITED");
    let after: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((9_000..=10_000).contains(&after), "{after}");
    server.get("/healthz").await.ok(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_status_of_one_session_is_limited() {
    let world = World::new().await;
    let server = TestServer::with(&world, "[server]\nsession_status_per_s = 0.0001\n");
    for session in ["one", "two"] {
        server.post("/v1/sessions", &format!(r#"{{"session_id": "{session}"}}"#)).await.ok(201);
    }
    let status = async |session: &str| {
        let path = format!("/v1/sessions/{session}/tools/subagent");
        server.post(&path, r#"{"action": "status", "task_id": "t_01"}"#).await
    };
    assert_ne!(status("one").await.status, 429);
    let answer = status("one").await;
    answer.refused(429, "RATE_LIMITED");
    assert!(answer.header("retry-after").unwrap().parse::<u64>().unwrap() > 0);
    assert_ne!(status("two").await.status, 429);
    server.post("/v1/sessions/one/tools/subagent", r#"{"action": "list_agents"}"#).await.ok(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_session_gets_a_retry_after() {
    let world = World::new().await;
    let server = TestServer::with(&world, "[limits]\nsession_max_active = 1\n");
    server.post("/v1/sessions", r#"{"session_id": "s"}"#).await.ok(201);
    let spawn = r#"{"action": "spawn", "agent": "researcher", "task": "x"}"#;
    server.post("/v1/sessions/s/tools/subagent", spawn).await.ok(200);
    let answer = server.post("/v1/sessions/s/tools/subagent", spawn).await;
    answer.refused(429, "MAX_TASKS_EXCEEDED");
    assert!(answer.header("retry-after").unwrap().parse::<u64>().unwrap() > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_config_sets_the_ceiling_of_turns_and_an_alias_for_all_models() {
    let world = World::new().await;
    let config = "[models.main]\nwire = 'openai'\n[model_aliases]\n'*' = 'main'\n[limits]\nmax_turns_ceiling = 100\n";
    let server = TestServer::of(&world, config);
    server.post("/v1/sessions", r#"{"session_id": "s"}"#).await.ok(201);
    let call = async |body: Value| {
        server.post("/v1/sessions/s/tools/subagent", &body.to_string()).await.ok(200)
    };
    for (name, sent) in [("a", 100), ("b", 101)] {
        let more = json!({"model": format!("vendor/{name}"), "max_turns": sent});
        let mut define =
            json!({"action": "define", "name": name, "description": "x", "system_prompt": "x"});
        define.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        call(define).await;
    }
    for agent in call(json!({"action": "list_agents"})).await["agents"].as_array().unwrap() {
        assert_eq!(
            (&agent["max_turns"], &agent["model"]),
            (&json!(100), &json!("main")),
            "{agent}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_config_is_refused_by_setting() {
    let world = World::new().await;
    for (setting, value) in [
        ("listen", "'nowhere'"),
        ("max_body_bytes", "1"),
        ("tenant_requests_per_s", "0"),
        ("trusted_proxies", "['10.0.0.0/33']"),
    ] {
        let folder = tempfile::TempDir::new().unwrap();
        let config = folder.path().join("adjutant.toml");
        std::fs::write(&config, format!("[server]\n{setting} = {value}\n")).unwrap();
        let mut command = crate::support::test_server::serve(world.url());
        let message =
            crate::support::process::refused(command.arg("--config").arg(config)).unwrap();
        assert!(message.contains(&format!("server.{setting}: ")), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_reads_of_one_key_delay_nothing_else() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    let (reader, other) = (world.api_key("one", "read").await, world.api_key("two", "admin").await);
    let own = world.api_key("one", "delegate").await;
    let bearer = |key: &str| format!("authorization: Bearer {key}");
    let (reader, other, own) = (bearer(&reader), bearer(&other), bearer(&own));
    for key in [&own, &other] {
        let body = r#"{"session_id": "s"}"#;
        let headers = [key.as_str(), "Content-Type: application/json"];
        server.request("POST", "/v1/sessions", &headers, body).await.ok(201);
    }
    // Only statistics read this table.
    let held = world.hold("lock table usage_total in access exclusive mode").await;
    let reads = async {
        let reads = (0..16).map(async |_| server.request("GET", "/v1/stats", &[&reader], "").await);
        futures::future::join_all(reads).await
    };
    let rest = async {
        world.until_blocked(8).await;
        for key in [&own, &other] {
            let path = "/v1/sessions/s/tools/subagent";
            let spawn = r#"{"action": "spawn", "agent": "researcher", "task": "x"}"#;
            let headers = [key.as_str(), "Content-Type: application/json"];
            server.request("POST", path, &headers, spawn).await.ok(200);
            let status = r#"{"action": "status", "task_id": "t_01"}"#;
            server.request("POST", path, &headers, status).await.ok(200);
        }
        server.request("GET", "/v1/tasks", &[&other], "").await.ok(200);
        let refused = server.request("GET", "/v1/tasks", &[&reader], "").await;
        refused.refused(429, "RATE_LIMITED");
        assert_eq!(refused.header("retry-after"), Some("1"));
        held.commit().await.unwrap();
    };
    let (answers, ()) = tokio::join!(reads, rest);
    let count = |status| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!((count(200), count(429)), (8, 8));
    server.request("GET", "/v1/stats", &[&reader], "").await.ok(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_is_folded_by_servers_while_no_worker_does() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    server.post("/v1/sessions", r#"{"session_id": "s"}"#).await.ok(201);
    let spawn = r#"{"action": "spawn", "agent": "researcher", "task": "x"}"#;
    server.post("/v1/sessions/s/tools/subagent", spawn).await.ok(200);
    assert!(world.count("select count(*) from usage_delta").await > 0, "only stale ones");
    let stale = sqlx::query("update usage_delta set at = now() - interval '1 minute'");
    stale.execute(&world.sql).await.unwrap();
    until("they are folded", async || world.count("select count(*) from usage_delta").await == 0)
        .await;
    assert_eq!(world.count("select unfinished from tenant_backlog").await, 1);
}
