//! A tenant cannot see, resend or sign with another tenant's webhooks.

use serde_json::json;

use crate::support::test_server::TestServer;
use crate::support::webhook_receiver::Receiver;
use crate::support::world::World;
use crate::worker::webhooks::deliveries::start_sender;

struct Request<'a> {
    server: &'a TestServer,
    authorization: String,
}

impl Request<'_> {
    async fn request(
        &self,
        method: &str,
        path: &str,
        body: &str,
    ) -> crate::support::http_client::Answer {
        let headers = [self.authorization.as_str(), "Content-Type: application/json"];
        self.server.request(method, path, &headers, body).await
    }
}

async fn visit<'a>(
    world: &World,
    server: &'a TestServer,
    tenant: &str,
    scope: &str,
) -> Request<'a> {
    Request {
        server,
        authorization: format!("Authorization: Bearer {}", world.api_key(tenant, scope).await),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_has_its_own_secrets_deliveries_and_webhooks() {
    let world = World::new().await;
    let receiver = Receiver::start().await;
    let server = TestServer::with(&world, "[webhooks]\nallow_private = true\n");
    let ours = visit(&world, &server, "ours", "admin").await;
    let theirs = visit(&world, &server, "theirs", "admin").await;
    let secret = |answer: crate::support::http_client::Answer| {
        answer.ok(201)["secret"].as_str().unwrap().to_owned()
    };
    let our_secret = secret(ours.request("POST", "/v1/webhooks/secrets", "").await);
    let with = |path: &str| {
        json!({"session_id": "same", "webhook": {"url": receiver.url(path)}}).to_string()
    };
    theirs
        .request("POST", "/v1/sessions", &with("theirs"))
        .await
        .refused(404, "WEBHOOK_SECRET_NOT_FOUND");
    let their_secret = secret(theirs.request("POST", "/v1/webhooks/secrets", "").await);
    for (who, path) in [(&ours, "ours"), (&theirs, "theirs")] {
        who.request("POST", "/v1/sessions", &with(path)).await.ok(201);
        let spawn = json!({"action": "spawn", "agent": "researcher", "task": "Look."}).to_string();
        who.request("POST", "/v1/sessions/same/tools/subagent", &spawn).await.ok(200);
    }
    let _worker = start_sender(&world);
    for one in receiver.receive(2).await {
        let (own, other) = if one.path == "ours" {
            (&our_secret, &their_secret)
        } else {
            (&their_secret, &our_secret)
        };
        assert_eq!((one.signatures(), one.signed_by(own), one.signed_by(other)), (1, 1, 0));
    }
    let listed = theirs.request("GET", "/v1/webhooks/deliveries", "").await.ok(200);
    assert_eq!(listed["deliveries"].as_array().unwrap().len(), 1, "{listed}");
    let their_delivery = listed["deliveries"][0]["id"].as_str().unwrap();
    let their_key = theirs.request("GET", "/v1/webhooks/secrets", "").await.ok(200);
    let their_key = their_key["secrets"][0]["id"].as_str().unwrap().to_owned();
    for (method, path, code) in [
        (
            "POST",
            format!("/v1/webhooks/deliveries/{their_delivery}/redeliver"),
            "DELIVERY_NOT_FOUND",
        ),
        ("DELETE", format!("/v1/webhooks/secrets/{their_key}"), "WEBHOOK_SECRET_NOT_FOUND"),
    ] {
        ours.request(method, &path, "").await.refused(404, code);
    }
    theirs.request("POST", "/v1/sessions", r#"{"session_id": "only theirs"}"#).await.ok(201);
    let hook = json!({"url": receiver.url("x")}).to_string();
    ours.request("PUT", "/v1/sessions/only%20theirs/webhook", &hook)
        .await
        .refused(404, "SESSION_NOT_FOUND");
    ours.request("DELETE", "/v1/sessions/only%20theirs/webhook", "")
        .await
        .refused(404, "SESSION_NOT_FOUND");
    let seen = ours.request("GET", "/v1/webhooks/deliveries?session=same", "").await;
    assert!(!seen.text.contains("/theirs"), "{}", seen.text);
    assert_eq!(receiver.received().len(), 2, "nothing was sent again");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_scope_allows_only_its_own_requests() {
    let world = World::new().await;
    let server = TestServer::on(&world);
    let admin = visit(&world, &server, "a", "admin").await;
    let delegate = visit(&world, &server, "a", "delegate").await;
    let read = visit(&world, &server, "a", "read").await;
    admin.request("POST", "/v1/webhooks/secrets", "").await.ok(201);
    delegate.request("POST", "/v1/sessions", r#"{"session_id": "s"}"#).await.ok(201);
    let hook = r#"{"url": "https://example.com/"}"#;
    let id = uuid::Uuid::now_v7();
    let redeliver = format!("/v1/webhooks/deliveries/{id}/redeliver");
    for who in [&delegate, &read] {
        who.request("POST", "/v1/webhooks/secrets", "").await.refused(403, "FORBIDDEN");
        who.request("DELETE", &format!("/v1/webhooks/secrets/{id}"), "")
            .await
            .refused(403, "FORBIDDEN");
    }
    read.request("PUT", "/v1/sessions/s/webhook", hook).await.refused(403, "FORBIDDEN");
    read.request("DELETE", "/v1/sessions/s/webhook", "").await.refused(403, "FORBIDDEN");
    read.request("POST", &redeliver, "").await.refused(403, "FORBIDDEN");
    delegate.request("GET", "/v1/webhooks/secrets", "").await.refused(403, "FORBIDDEN");
    delegate.request("GET", "/v1/webhooks/deliveries", "").await.refused(403, "FORBIDDEN");
    delegate.request("PUT", "/v1/sessions/s/webhook", hook).await.ok(200);
    delegate.request("POST", &redeliver, "").await.refused(404, "DELIVERY_NOT_FOUND");
    read.request("GET", "/v1/webhooks/secrets", "").await.ok(200);
    read.request("GET", "/v1/webhooks/deliveries", "").await.ok(200);
}
