//! An OTLP collector that stores the spans that it receives.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::net::TcpListener;

use crate::support::world::until;

type Bodies = Arc<Mutex<Vec<Bytes>>>;

pub struct Collector {
    pub url: String,
    bodies: Bodies,
}

impl Collector {
    pub async fn start() -> Self {
        let bodies = Bodies::default();
        let router = Router::new().route("/v1/traces", post(store)).with_state(bodies.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, bodies }
    }

    fn requests(&self) -> Vec<ExportTraceServiceRequest> {
        let bodies = self.bodies.lock().unwrap();
        bodies.iter().map(|body| ExportTraceServiceRequest::decode(body.clone()).unwrap()).collect()
    }

    /// All spans in the order of their arrival.
    pub fn spans(&self) -> Vec<Span> {
        let resources = self.requests().into_iter().flat_map(|request| request.resource_spans);
        resources.flat_map(|resource| resource.scope_spans).flat_map(|scope| scope.spans).collect()
    }

    pub fn named(&self, name: &str) -> Vec<Span> {
        self.spans().into_iter().filter(|span| span.name == name).collect()
    }

    /// Waits until there are this many spans of this name.
    pub async fn has(&self, name: &str, count: usize) {
        until(&format!("there are {count} spans {name:?}"), async || {
            self.named(name).len() >= count
        })
        .await;
    }

    /// The names of the services that have sent spans.
    pub fn services(&self) -> BTreeSet<String> {
        let resources = self.requests().into_iter().flat_map(|request| request.resource_spans);
        let attributes = resources.flat_map(|resource| resource.resource.unwrap().attributes);
        let name = |value| match value {
            Some(Value::StringValue(name)) => name,
            other => panic!("service.name is {other:?}"),
        };
        attributes
            .filter(|attribute| attribute.key == "service.name")
            .map(|attribute| name(attribute.value.unwrap().value))
            .collect()
    }

    /// Whether any request contains these words.
    pub fn heard(&self, words: &str) -> bool {
        let bodies = self.bodies.lock().unwrap();
        bodies.iter().any(|body| body.windows(words.len()).any(|window| window == words.as_bytes()))
    }
}

async fn store(State(bodies): State<Bodies>, body: Bytes) {
    bodies.lock().unwrap().push(body);
}

/// An attribute of a span, as text.
pub fn attribute(span: &Span, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key == key)?;
    let value = found.value.clone()?.value?;
    if let Value::IntValue(number) = value {
        return Some(number.to_string());
    }
    let Value::StringValue(text) = value else { panic!("{key} is {value:?}") };
    Some(text)
}
