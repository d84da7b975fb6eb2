//! A server in the test's process that has only event streams, and clients that read them.

use std::time::Duration;

use adjutant_agent::{SessionId, TaskId};
use adjutant_server::{Caller, EventStreams, Hub, Scope, StreamLimits, event_routes};
use adjutant_store::Store;
use serde_json::Value;
use sqlx::Row;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

use crate::support::world::World;

const PATIENCE: Duration = Duration::from_secs(60);

/// The server. Dropping it closes its connections, as a kill would.
pub struct EventServer {
    pub streams: EventStreams,
    port: u16,
    _serving: AbortOnDropHandle<()>,
}

impl EventServer {
    pub async fn start(world: &World) -> Self {
        Self::with(world, "tenant", StreamLimits::default()).await
    }

    pub async fn with(world: &World, tenant: &str, limits: StreamLimits) -> Self {
        let store = Store::open(world.url(), 8).await.unwrap();
        let hub = Hub::start(store.clone(), world.url().to_owned());
        let streams = EventStreams::new(store, hub, limits);
        let caller = Caller::new(tenant, &[Scope::Read]);
        let router = event_routes(streams.clone()).layer(axum::Extension(caller));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { streams, port, _serving: AbortOnDropHandle::new(serving) }
    }

    pub async fn session(
        &self,
        world: &World,
        session: SessionId,
        query: &str,
        last: Option<&str>,
    ) -> Stream {
        let row = sqlx::query("select name from session where id = $1").bind(session.0);
        let name: String = row.fetch_one(&world.sql).await.unwrap().get("name");
        self.get(&format!("/v1/sessions/{name}/events{query}"), last).await
    }

    pub async fn task(&self, task: TaskId, query: &str, last: Option<&str>) -> Stream {
        self.get(&format!("/v1/tasks/{task}/events{query}"), last).await
    }

    pub async fn get(&self, path: &str, last: Option<&str>) -> Stream {
        let last = last.map_or(String::new(), |last| format!("Last-Event-ID: {last}\r\n"));
        Stream::open(&format!("127.0.0.1:{}", self.port), path, &last).await
    }
}

pub struct Stream {
    pub status: u16,
    /// The `Last-Event-ID` that a browser would reconnect with.
    pub last_id: Option<String>,
    lines: Lines<BufReader<TcpStream>>,
}

/// One event as a client receives it.
#[derive(Debug, Clone)]
pub struct StreamedEvent {
    pub id: Option<String>,
    pub data: Value,
}

impl StreamedEvent {
    pub fn kind(&self) -> &str {
        self.data["kind"].as_str().unwrap()
    }
}

impl Stream {
    /// Uses HTTP/1.0, so that the body is not chunked. Each header ends with a line break.
    pub async fn open(address: &str, path: &str, headers: &str) -> Self {
        let mut connection = TcpStream::connect(address).await.unwrap();
        connection
            .write_all(format!("GET {path} HTTP/1.0\r\n{headers}\r\n").as_bytes())
            .await
            .unwrap();
        let mut lines = BufReader::new(connection).lines();
        let first = lines.next_line().await.unwrap().unwrap();
        let status = first.split(' ').nth(1).unwrap().parse().unwrap();
        while !lines.next_line().await.unwrap().unwrap().is_empty() {}
        Self { status, last_id: None, lines }
    }

    /// The next event, or `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<StreamedEvent> {
        let (mut id, mut data) = (None, None);
        loop {
            let line = tokio::time::timeout(PATIENCE, self.lines.next_line())
                .await
                .expect("no event before the timeout");
            let Ok(Some(line)) = line else { return None };
            match line.split_once(": ").map_or((line.as_str(), ""), |(name, value)| (name, value)) {
                ("id", value) => id = Some(value.to_owned()),
                ("data", value) => data = Some(serde_json::from_str(value).unwrap()),
                ("", _) => {
                    self.last_id = id.clone().or(self.last_id.take());
                    if let Some(data) = data {
                        return Some(StreamedEvent { id, data });
                    }
                    id = None;
                }
                _ => {}
            }
        }
    }

    /// All events until the stream ends.
    pub async fn rest(mut self) -> Vec<StreamedEvent> {
        let mut received = Vec::new();
        while let Some(event) = self.next().await {
            received.push(event);
        }
        received
    }

    /// All events up to and with the first one of this kind.
    pub async fn until(&mut self, kind: &str) -> Vec<StreamedEvent> {
        let mut received = Vec::new();
        while let Some(event) = self.next().await {
            received.push(event);
            if received.last().unwrap().kind() == kind {
                return received;
            }
        }
        panic!("the stream ended without {kind}: {received:#?}");
    }
}

pub fn kinds(received: &[StreamedEvent]) -> Vec<&str> {
    received.iter().map(StreamedEvent::kind).collect()
}
