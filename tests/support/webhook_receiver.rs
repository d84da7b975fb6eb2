//! A receiver of webhooks: a small HTTP server that records deliveries and answers as scripted.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use crate::support::world::until;

/// How the receiver answers a delivery.
#[derive(Debug, Clone)]
pub enum Answer {
    Status(u16),
    Header(u16, &'static str, String),
    /// Never answers.
    Hang,
}

/// A delivery as it arrived.
#[derive(Debug, Clone)]
pub struct Received {
    pub path: String,
    pub headers: HeaderMap,
    pub body: String,
}

impl Received {
    pub fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    pub fn id(&self) -> &str {
        self.header("webhook-id")
    }

    /// How many of its signatures are by this secret, verified as any receiver would.
    pub fn signed_by(&self, secret: &str) -> usize {
        let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
        let content = format!("{}.{}.{}", self.id(), self.header("webhook-timestamp"), self.body);
        let signatures = self.header("webhook-signature").split(' ');
        let given =
            signatures.map(|one| STANDARD.decode(one.strip_prefix("v1,").unwrap()).unwrap());
        let is_ours = |signature: &Vec<u8>| {
            let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(&key).unwrap();
            mac.update(content.as_bytes());
            mac.verify_slice(signature).is_ok()
        };
        given.filter(is_ours).count()
    }

    pub fn signatures(&self) -> usize {
        self.header("webhook-signature").split(' ').count()
    }
}

pub struct Receiver {
    pub url: String,
    deliveries: Arc<Deliveries>,
    _serving: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct Deliveries {
    received: Mutex<Vec<Received>>,
    /// The next answers; without one, it accepts the delivery.
    next: Mutex<VecDeque<Answer>>,
}

impl Receiver {
    pub async fn start() -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    pub fn on(listener: TcpListener) -> Self {
        let url = format!("http://{}", listener.local_addr().unwrap());
        let deliveries = Arc::new(Deliveries::default());
        let routes = Router::new().route("/{*path}", post(take)).with_state(deliveries.clone());
        let serving = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { url, deliveries, _serving: AbortOnDropHandle::new(serving) }
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.url)
    }

    pub fn answer_next(&self, next: impl IntoIterator<Item = Answer>) {
        self.deliveries.next.lock().unwrap().extend(next);
    }

    pub fn received(&self) -> Vec<Received> {
        self.deliveries.received.lock().unwrap().clone()
    }

    /// Waits for this many deliveries, in the order of their arrival.
    pub async fn receive(&self, count: usize) -> Vec<Received> {
        until(&format!("{count} deliveries have arrived"), async || self.received().len() >= count)
            .await;
        let received = self.received();
        assert_eq!(received.len(), count, "{received:#?}");
        received
    }
}

async fn take(
    State(deliveries): State<Arc<Deliveries>>,
    Path(path): Path<String>,
    headers: HeaderMap,
    body: String,
) -> Response {
    deliveries.received.lock().unwrap().push(Received { path, headers, body });
    let next = deliveries.next.lock().unwrap().pop_front();
    let status = |status| StatusCode::from_u16(status).unwrap();
    match next {
        None => StatusCode::NO_CONTENT.into_response(),
        Some(Answer::Status(code)) => (status(code), "x".repeat(100_000)).into_response(),
        Some(Answer::Header(code, name, value)) => (status(code), [(name, value)]).into_response(),
        Some(Answer::Hang) => std::future::pending().await,
    }
}
