//! Somebody who is told how tasks end: a small HTTP server that keeps what it gets, and answers as it is told to.

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

use crate::world::until;

/// What a receiver does with what it gets.
#[derive(Debug, Clone)]
pub enum Does {
    Answer(u16),
    With(u16, &'static str, String),
    /// Never answers.
    Hang,
}

/// A delivery, as it came.
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

    /// How many of its signatures this secret made; checked as any receiver would.
    pub fn signed_by(&self, secret: &str) -> usize {
        let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
        let content = format!("{}.{}.{}", self.id(), self.header("webhook-timestamp"), self.body);
        let signatures = self.header("webhook-signature").split(' ');
        let given = signatures.map(|one| STANDARD.decode(one.strip_prefix("v1,").unwrap()).unwrap());
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
    desk: Arc<Desk>,
    _serving: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct Desk {
    received: Mutex<Vec<Received>>,
    /// What it does with those that come next; then it takes all.
    next: Mutex<VecDeque<Does>>,
}

impl Receiver {
    pub async fn start() -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    pub fn on(listener: TcpListener) -> Self {
        let url = format!("http://{}", listener.local_addr().unwrap());
        let desk = Arc::new(Desk::default());
        let routes = Router::new().route("/{*path}", post(take)).with_state(desk.clone());
        let serving = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { url, desk, _serving: AbortOnDropHandle::new(serving) }
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.url)
    }

    pub fn does(&self, next: impl IntoIterator<Item = Does>) {
        self.desk.next.lock().unwrap().extend(next);
    }

    pub fn received(&self) -> Vec<Received> {
        self.desk.received.lock().unwrap().clone()
    }

    /// Waits for so many, and gives them in the order in which they came.
    pub async fn gets(&self, count: usize) -> Vec<Received> {
        until(&format!("{count} deliveries have come"), async || self.received().len() >= count).await;
        let received = self.received();
        assert_eq!(received.len(), count, "{received:#?}");
        received
    }
}

async fn take(
    State(desk): State<Arc<Desk>>,
    Path(path): Path<String>,
    headers: HeaderMap,
    body: String,
) -> Response {
    desk.received.lock().unwrap().push(Received { path, headers, body });
    let next = desk.next.lock().unwrap().pop_front();
    let status = |status| StatusCode::from_u16(status).unwrap();
    match next {
        None => StatusCode::NO_CONTENT.into_response(),
        Some(Does::Answer(code)) => (status(code), "x".repeat(100_000)).into_response(),
        Some(Does::With(code, name, value)) => (status(code), [(name, value)]).into_response(),
        Some(Does::Hang) => std::future::pending().await,
    }
}
