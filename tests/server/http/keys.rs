//! API keys: validity, scopes and the isolation of tenants.

use adjutant_store::NewKey;
use chrono::{TimeDelta, Utc};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::http_client::Answer;
use crate::support::test_server::TestServer;
use crate::support::world::{World, until};

/// An HTTP client with an API key.
struct Client<'a> {
    server: &'a TestServer,
    authorization: String,
}

impl<'a> Client<'a> {
    fn with(server: &'a TestServer, secret: &str) -> Self {
        Self { server, authorization: format!("Authorization: Bearer {secret}") }
    }

    async fn get(&self, path: &str) -> Answer {
        self.server.request("GET", path, &[&self.authorization], "").await
    }

    async fn post(&self, path: &str, body: &Value) -> Answer {
        let headers = [self.authorization.as_str(), "Content-Type: application/json"];
        self.server.request("POST", path, &headers, &body.to_string()).await
    }

    async fn delete(&self, path: &str) -> Answer {
        self.server.request("DELETE", path, &[&self.authorization], "").await
    }

    async fn spawn(&self, session: &str) -> Value {
        let spawn =
            json!({"action": "spawn", "agent": "researcher", "task": "Look.", "queue": true});
        self.post(&format!("/v1/sessions/{session}/tools/subagent"), &spawn).await.ok(200)
    }
}

fn new_key(tenant: &str, scopes: &[&str]) -> NewKey {
    NewKey {
        tenant: tenant.to_owned(),
        name: "laptop".to_owned(),
        scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
        expires_at: None,
        ..NewKey::default()
    }
}

async fn secret(world: &World, tenant: &str, scopes: &[&str]) -> String {
    world.store.create_key(&new_key(tenant, scopes)).await.unwrap().1
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_valid_key_is_accepted() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    let (revoked, one) = world.store.create_key(&new_key("a", &["delegate"])).await.unwrap();
    let soon = NewKey {
        expires_at: Some(Utc::now() + TimeDelta::hours(1)),
        ..new_key("a", &["delegate"])
    };
    let (_, two) = world.store.create_key(&soon).await.unwrap();
    let good = secret(&world, "a", &["delegate"]).await;
    for secret in [&one, &two, &good] {
        Client::with(&server, secret).get("/v1/sessions").await.ok(200);
    }
    let changed = format!("{}{}", &good[..67], if good.ends_with('0') { '1' } else { '0' });
    for wrong in
        [&good[..67], &changed, &good[4..], &good.to_uppercase(), "adj_", &"x".repeat(4000)]
    {
        let answer = Client::with(&server, wrong).get("/v1/sessions").await;
        let message = answer.refused(401, "UNAUTHENTICATED");
        assert!(!message.contains(wrong), "{message}");
    }
    until("a server that needed no key has noticed that there are keys", async || {
        server.get("/v1/sessions").await.status == 401
    })
    .await;

    world.store.revoke_key(revoked.id).await.unwrap();
    sqlx::query(
        "update api_key set expires_at = now() - interval '1 second' where expires_at is not null",
    )
    .execute(&world.sql)
    .await
    .unwrap();
    for secret in [&one, &two] {
        let client = Client::with(&server, secret);
        until("the key is refused", async || client.get("/v1/sessions").await.status == 401).await;
        client.post("/v1/sessions", &json!({})).await.refused(401, "UNAUTHENTICATED");
    }
    Client::with(&server, &good).get("/v1/sessions").await.ok(200);
    let log = server.stderr();
    for secret in [&one, &two, &good] {
        assert!(!log.contains(&secret[4..20]), "a key is in the log");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scope_allows_its_routes_and_no_others() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    let secrets = [
        secret(&world, "a", &["delegate"]).await,
        secret(&world, "a", &["read"]).await,
        secret(&world, "a", &["admin"]).await,
    ];
    let [delegate, read, admin] = secrets.each_ref().map(|secret| Client::with(&server, secret));
    delegate.post("/v1/sessions", &json!({"session_id": "s"})).await.ok(201);
    let task = delegate.spawn("s").await["id"].as_str().unwrap().to_owned();
    let tool = "/v1/sessions/s/tools/subagent";
    let list = json!({"action": "list_agents"});

    for path in [
        "/v1/tasks".to_owned(),
        "/v1/stats".to_owned(),
        format!("/v1/tasks/{task}"),
        format!("/v1/tasks/{task}/turns"),
    ] {
        delegate.get(&path).await.refused(403, "FORBIDDEN");
        read.get(&path).await.ok(200);
        admin.get(&path).await.ok(200);
    }
    read.get("/v1/sessions").await.ok(200);
    for (path, body) in [
        ("/v1/sessions".to_owned(), &json!({})),
        ("/v1/sessions/s/archive".to_owned(), &json!({})),
        (format!("/v1/tasks/{task}/cancel"), &json!({})),
        (format!("/v1/tasks/{task}/retry"), &json!({})),
        (tool.to_owned(), &list),
    ] {
        read.post(&path, body).await.refused(403, "FORBIDDEN");
    }
    read.delete("/v1/sessions/s").await.refused(403, "FORBIDDEN");
    admin.post(tool, &list).await.ok(200);
    delegate.post(&format!("/v1/tasks/{task}/cancel"), &json!({})).await.ok(200);
    assert_eq!(delegate.delete("/v1/sessions/s").await.status, 204);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_tenants_data_is_neither_shown_nor_guessable() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    let all = ["delegate", "read"];
    let secrets = [secret(&world, "a", &all).await, secret(&world, "b", &all).await];
    let [ours, theirs] = secrets.each_ref().map(|secret| Client::with(&server, secret));
    let mut their_tasks = Vec::new();
    for session in ["same name", "theirs"] {
        theirs.post("/v1/sessions", &json!({"session_id": session})).await.ok(201);
        for _ in 0..3 {
            let task = theirs.spawn(&session.replace(' ', "%20")).await;
            their_tasks.push(task["id"].as_str().unwrap().to_owned());
        }
    }
    ours.post("/v1/sessions", &json!({"session_id": "same name"})).await.ok(201);
    let own = ours.spawn("same%20name").await;
    assert_eq!((&own["task_id"], &own["queue_position"]), (&json!("t_01"), &json!(0)), "{own}");

    let listed = ours.get("/v1/tasks").await.ok(200);
    let ids: Vec<&Value> =
        listed["tasks"].as_array().unwrap().iter().map(|task| &task["id"]).collect();
    assert_eq!(ids, [&own["id"]]);
    let sessions = ours.get("/v1/sessions").await.ok(200);
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 1, "{sessions}");
    assert_eq!(ours.get("/v1/tasks?session=theirs").await.ok(200)["tasks"], json!([]));
    assert_eq!(
        ours.get(&format!("/v1/tasks?q={}", their_tasks[0])).await.ok(200)["tasks"],
        json!([])
    );
    // The statistics count nothing of other tenants. The age of the oldest task changes by itself.
    let stats = async || {
        let mut stats = ours.get("/v1/stats").await.ok(200);
        assert!(stats["queue"]["oldest_s"].take().is_f64(), "{stats}");
        stats
    };
    let with_others = stats().await;
    for session in ["same%20name", "theirs"] {
        assert_eq!(theirs.delete(&format!("/v1/sessions/{session}")).await.status, 204);
    }
    assert_eq!(with_others, stats().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_tenants_resources_are_refused_like_unknown_ones() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    let all = ["delegate", "read"];
    let secrets = [secret(&world, "a", &all).await, secret(&world, "b", &all).await];
    let [ours, theirs] = secrets.each_ref().map(|secret| Client::with(&server, secret));
    theirs.post("/v1/sessions", &json!({"session_id": "theirs"})).await.ok(201);
    let their_task = theirs.spawn("theirs").await["id"].as_str().unwrap().to_owned();
    let nobodys = Uuid::now_v7().to_string();

    let same = |there: Answer, not_there: Answer, names: [&str; 2]| {
        assert_eq!(there.status, 404, "{there:?}");
        let text = not_there.text.replace(names[1], names[0]);
        assert_eq!((there.status, there.text), (not_there.status, text));
    };
    for path in ["", "/turns", "/events"] {
        let at = |id: &str| format!("/v1/tasks/{id}{path}");
        same(
            ours.get(&at(&their_task)).await,
            ours.get(&at(&nobodys)).await,
            [&their_task, &nobodys],
        );
    }
    for path in ["/cancel", "/retry"] {
        let at = |id: &str| format!("/v1/tasks/{id}{path}");
        let [there, not_there] = [at(&their_task), at(&nobodys)];
        let answers =
            (ours.post(&there, &json!({})).await, ours.post(&not_there, &json!({})).await);
        same(answers.0, answers.1, [&their_task, &nobodys]);
    }
    let names = ["theirs", "nobodys"];
    for path in ["", "/prompt", "/events"] {
        let at = |name: &str| format!("/v1/sessions/{name}{path}");
        same(ours.get(&at(names[0])).await, ours.get(&at(names[1])).await, names);
    }
    for (path, body) in [
        ("/archive", json!({})),
        ("/tools/subagent", json!({"action": "status", "task_id": "t_01"})),
        ("/tools/subagent", json!({"action": "wait"})),
        ("/tools/shared_context", json!({"action": "list_keys"})),
    ] {
        let at = |name: &str| format!("/v1/sessions/{name}{path}");
        same(ours.post(&at(names[0]), &body).await, ours.post(&at(names[1]), &body).await, names);
    }
    let at = |name: &str| format!("/v1/sessions/{name}");
    same(ours.delete(&at(names[0])).await, ours.delete(&at(names[1])).await, names);
    assert_eq!(theirs.get(&format!("/v1/tasks/{their_task}")).await.ok(200)["state"], "queued");
    ours.post("/v1/sessions", &json!({"session_id": "theirs"})).await.ok(201);
}
