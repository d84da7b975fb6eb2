//! Forwards messages to the server and its answers to the client.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use adjutant_server::Dialect;
use anyhow::Context;
use futures::StreamExt;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, Response};
use serde_json::Value;
use tokio::task::AbortHandle;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::message::{Kind, Message};
use super::server_link::ServerLink;
use super::stdio::{Input, Output};
use crate::client::{ApiRequest, CallError, Client, Refusal};
use crate::exit::CommandError;

/// How long a server may be unreachable before a request fails: longer than a restart.
const MAX_OUTAGE: Duration = Duration::from_secs(30);
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// How long answers in flight may take after the client has closed its end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a cancelled request may take to end, how often the cancel is sent again, and how often
/// the request is polled.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);
const REPEAT_CANCEL: Duration = Duration::from_millis(500);
const CANCEL_POLL: Duration = Duration::from_millis(20);

/// The revision before `initialize`, for clients of revisions that negotiate it there.
const DEFAULT_VERSION: &str = "2025-11-25";

pub struct Bridge {
    server: Arc<ServerLink>,
    session: HeaderValue,
    /// Identifies this bridge to the server, so that it can cancel its own requests.
    connection: HeaderValue,
    dialect: Dialect,
    output: Output,
    /// The revision that `initialize` negotiated.
    version: Mutex<Option<String>>,
    in_flight: Mutex<HashMap<String, AbortHandle>>,
}

impl Bridge {
    pub fn new(
        server: Arc<ServerLink>,
        session: String,
        dialect: Dialect,
    ) -> anyhow::Result<Arc<Self>> {
        let session = HeaderValue::from_bytes(session.as_bytes()).map_err(|_| {
            CommandError::usage("--session: must not contain line ends or other control characters")
        })?;
        let connection = HeaderValue::try_from(format!("mcp-{}", Uuid::now_v7()))
            .context("the id of the connection")?;
        Ok(Arc::new(Self {
            server,
            session,
            connection,
            dialect,
            output: Output::new(),
            version: Mutex::default(),
            in_flight: Mutex::default(),
        }))
    }

    /// Runs until the client closes standard input or stops reading.
    pub async fn run(self: &Arc<Self>) {
        let (mut input, tasks) = (Input::new(), TaskTracker::new());
        let reading = async {
            while let Some(line) = input.next().await {
                self.dispatch(&line, &tasks);
            }
            tasks.close();
            // A client may close its end and still read the last answers.
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, tasks.wait()).await;
        };
        tokio::select! {
            () = reading => {}
            () = self.output.closed.cancelled() => {}
        }
        lock(&self.in_flight).values().for_each(AbortHandle::abort);
    }

    fn dispatch(self: &Arc<Self>, line: &str, tasks: &TaskTracker) {
        let message = Message::parse(line);
        match message.kind() {
            Kind::Notification => {}
            Kind::Cancel(id) => {
                if let Some(request) = lock(&self.in_flight).remove(&id) {
                    let bridge = self.clone();
                    tasks.spawn(async move { bridge.cancel(&message, &request).await });
                }
            }
            Kind::Request => {
                let (bridge, id) = (self.clone(), message.id());
                let mut in_flight = lock(&self.in_flight);
                let request = tasks.spawn(async move {
                    bridge.answer(&message).await;
                    bridge.finish(&message);
                });
                in_flight.insert(id, request.abort_handle());
            }
        }
    }

    /// Forgets the request of the current tokio task. Invalid messages share the id null, so a
    /// later message may have replaced its entry.
    fn finish(&self, message: &Message) {
        let (mut in_flight, id) = (lock(&self.in_flight), message.id());
        if in_flight.get(&id).is_some_and(|request| request.id() == tokio::task::id()) {
            in_flight.remove(&id);
        }
    }

    /// Forwards a cancel until the server has ended the request. It is repeated, because it can
    /// overtake the request. The server cancels a task only for this message, and not because a
    /// connection ends.
    async fn cancel(&self, message: &Message, request: &AbortHandle) {
        let started = Instant::now();
        while !request.is_finished() && started.elapsed() < CANCEL_TIMEOUT {
            if let Ok(client) = self.server.client().await
                && let Err(error) = self.send(&client, message).await
            {
                tracing::debug!("cannot forward a cancel: {error}");
            }
            let sent = Instant::now();
            while !request.is_finished() && sent.elapsed() < REPEAT_CANCEL {
                tokio::time::sleep(CANCEL_POLL).await;
            }
        }
        request.abort();
    }

    /// Whether the client still expects the answer to a request.
    fn is_expected(&self, message: &Message) -> bool {
        lock(&self.in_flight).contains_key(&message.id())
    }

    /// Answers a request, and retries while the server is unreachable.
    async fn answer(&self, message: &Message) {
        let started = Instant::now();
        loop {
            let client = match self.server.client().await {
                Ok(client) => client,
                Err(error) => return self.refuse(message, &format!("{error:#}")).await,
            };
            let Err(error) = self.forward(&client, message).await else { return };
            let not_made = matches!(error, CallError::NoConnection { .. });
            if not_made {
                self.server.forget(&client).await;
            }
            if !(not_made || message.may_be_repeated()) || started.elapsed() > MAX_OUTAGE {
                return self.refuse(message, &error.to_string()).await;
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    async fn refuse(&self, message: &Message, why: &str) {
        let (code, why) = ("UNAVAILABLE".to_owned(), why.to_owned());
        let refusal =
            Refusal { status: 503, code, message: why, retry_after: None, raw_body: None };
        self.output.write(&message.refused(&self.version(message), &refusal)).await;
    }

    async fn send(&self, client: &Client, message: &Message) -> Result<Response, CallError> {
        let query = vec![("dialect", self.dialect.as_str().to_owned())];
        let call = ApiRequest { method: Method::POST, path: vec!["mcp"], query, body: None };
        let mut request = client
            .request(&call)
            .header(ACCEPT, "application/json, text/event-stream")
            .header(CONTENT_TYPE, "application/json")
            .header("adjutant-session", self.session.clone())
            .header("mcp-session-id", self.connection.clone())
            .body(message.line().to_owned());
        if !message.is_initialize() {
            request = request.header("mcp-protocol-version", self.version(message));
        }
        for (name, value) in message.headers() {
            request = request.header(name, value);
        }
        request.send().await.map_err(|error| client.transport_error(&error))
    }

    /// Sends a message and forwards the answer. Fails only if there was no answer.
    async fn forward(&self, client: &Client, message: &Message) -> Result<(), CallError> {
        let response = self.send(client, message).await?;
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
            return self.forward_events(client, message, response).await;
        }
        let status = response.status().as_u16();
        let text = response.text().await.map_err(|error| client.transport_error(&error))?;
        self.forward_body(client, message, status, &text).await
    }

    /// Forwards a body: an answer, or a refusal that is not JSON-RPC.
    async fn forward_body(
        &self,
        client: &Client,
        message: &Message,
        status: u16,
        text: &str,
    ) -> Result<(), CallError> {
        let value: Value = serde_json::from_str(text).unwrap_or_default();
        if value.get("jsonrpc").is_some() {
            if let Some(version) =
                value["result"]["protocolVersion"].as_str().filter(|_| message.is_initialize())
            {
                *lock(&self.version) = Some(version.to_owned());
            }
            if self.is_expected(message) {
                self.output.write(text).await;
            }
            return Ok(());
        }
        match Refusal::read(status, None, text) {
            Some(refusal) => {
                tracing::warn!(
                    error.code = refusal.code,
                    "the server refused a request: {}",
                    refusal.message
                );
                self.output.write(&message.refused(&self.version(message), &refusal)).await;
                Ok(())
            }
            None => {
                let (url, why) = (client.url(), format!("HTTP status {status}"));
                Err(CallError::NoAnswer { url, why })
            }
        }
    }

    /// Forwards notifications until the answer arrives.
    async fn forward_events(
        &self,
        client: &Client,
        message: &Message,
        response: Response,
    ) -> Result<(), CallError> {
        let mut events = sse_stream::SseStream::from_bytes_stream(response.bytes_stream());
        while let Some(Ok(event)) = events.next().await {
            let Some(line) = event.data.filter(|data| !data.trim().is_empty()) else { continue };
            if self.is_expected(message) {
                self.output.write(&line).await;
            }
            if message.is_answered_by(&line) {
                return Ok(());
            }
        }
        let why = "the answer was incomplete".to_owned();
        Err(CallError::NoAnswer { url: client.url(), why })
    }

    fn version(&self, message: &Message) -> String {
        let agreed = || lock(&self.version).clone();
        message
            .version()
            .map(str::to_owned)
            .or_else(agreed)
            .unwrap_or_else(|| DEFAULT_VERSION.to_owned())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
