//! Takes messages to the server, and its answers back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use adjutant_server::Dialect;
use futures::StreamExt;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, Response};
use serde_json::Value;
use tokio::task::AbortHandle;
use tokio_util::task::TaskTracker;

use super::link::Link;
use super::message::{Kind, Message};
use super::stdio::{Input, Output};
use crate::client::{Call, CallError, Client, Refusal};
use crate::exit::Told;

/// How long a server may be away before its client is told so: longer than a restart.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(200);

/// For answers that are under way when the client has nothing more to say.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Of revisions that say it once, until they have.
const FIRST_VERSION: &str = "2025-11-25";

pub struct Bridge {
    link: Arc<Link>,
    session: HeaderValue,
    dialect: Dialect,
    output: Output,
    /// What was agreed on at `initialize`.
    version: Mutex<Option<String>>,
    under_way: Mutex<HashMap<String, AbortHandle>>,
}

impl Bridge {
    pub fn new(link: Arc<Link>, session: String, dialect: Dialect) -> anyhow::Result<Arc<Self>> {
        let session = HeaderValue::from_bytes(session.as_bytes())
            .map_err(|_| Told::usage("--session: must not contain line ends or other control characters"))?;
        Ok(Arc::new(Self {
            link,
            session,
            dialect,
            output: Output::new(),
            version: Mutex::default(),
            under_way: Mutex::default(),
        }))
    }

    /// Until the client says nothing more, or reads nothing more.
    pub async fn run(self: &Arc<Self>) {
        let (mut input, open) = (Input::new(), TaskTracker::new());
        let reading = async {
            while let Some(line) = input.next().await {
                self.take(&line, &open);
            }
            open.close();
            // Whoever closes its end and stays to listen hears the last answers.
            let _ = tokio::time::timeout(LAST_WORDS, open.wait()).await;
        };
        tokio::select! {
            () = reading => {}
            () = self.output.closed.cancelled() => {}
        }
        lock(&self.under_way).values().for_each(AbortHandle::abort);
    }

    fn take(self: &Arc<Self>, line: &str, open: &TaskTracker) {
        let message = Message::read(line);
        match message.kind() {
            Kind::Notification => {}
            // The server notices that nobody listens, and ends the wait.
            Kind::Cancel(id) => {
                if let Some(request) = lock(&self.under_way).remove(&id) {
                    request.abort();
                }
            }
            Kind::Request => {
                let (bridge, id) = (self.clone(), message.id());
                let mut under_way = lock(&self.under_way);
                let request = open.spawn(async move {
                    bridge.answer(&message).await;
                    lock(&bridge.under_way).remove(&message.id());
                });
                under_way.insert(id, request.abort_handle());
            }
        }
    }

    /// Answers a request, whatever happens to the server meanwhile.
    async fn answer(&self, message: &Message) {
        let begun = Instant::now();
        loop {
            let client = match self.link.server().await {
                Ok(client) => client,
                Err(error) => return self.refuse(message, &format!("{error:#}")).await,
            };
            let Err(error) = self.ask(&client, message).await else { return };
            let not_made = matches!(error, CallError::NoConnection { .. });
            if not_made {
                self.link.lost(&client).await;
            }
            if !(not_made || message.may_be_repeated()) || begun.elapsed() > PATIENCE {
                return self.refuse(message, &error.to_string()).await;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn refuse(&self, message: &Message, why: &str) {
        let (code, why) = ("UNAVAILABLE".to_owned(), why.to_owned());
        let refusal = Refusal { status: 503, code, message: why, retry_after: None, as_it_came: None };
        self.output.write(&message.refused(&refusal)).await;
    }

    /// Sends a message, and passes on what comes back. Fails only if its answer did not come.
    async fn ask(&self, client: &Client, message: &Message) -> Result<(), CallError> {
        let query = vec![("dialect", self.dialect.as_str().to_owned())];
        let call = Call { method: Method::POST, path: vec!["mcp"], query, body: None };
        let mut request = client
            .request(&call)
            .header(ACCEPT, "application/json, text/event-stream")
            .header(CONTENT_TYPE, "application/json")
            .header("adjutant-session", self.session.clone())
            .body(message.line().to_owned());
        if !message.is_initialize() {
            request = request.header("mcp-protocol-version", self.version(message));
        }
        for (name, value) in message.headers() {
            request = request.header(name, value);
        }
        let response = request.send().await.map_err(|error| client.no_answer(&error))?;
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
            return self.pass_on_events(client, message, response).await;
        }
        let status = response.status().as_u16();
        let text = response.text().await.map_err(|error| client.no_answer(&error))?;
        self.pass_on(client, message, status, &text).await
    }

    /// One body: an answer, or a refusal by whoever let nobody in.
    async fn pass_on(
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
            self.output.write(text).await;
            return Ok(());
        }
        match Refusal::read(status, None, text) {
            Some(refusal) => {
                tracing::warn!(error.code = refusal.code, "the server refuses: {}", refusal.message);
                self.output.write(&message.refused(&refusal)).await;
                Ok(())
            }
            None => {
                let (url, why) = (client.url(), format!("it answers {status}"));
                Err(CallError::NoAnswer { url, why })
            }
        }
    }

    /// Notifications, and at last the answer.
    async fn pass_on_events(
        &self,
        client: &Client,
        message: &Message,
        response: Response,
    ) -> Result<(), CallError> {
        let mut events = sse_stream::SseStream::from_bytes_stream(response.bytes_stream());
        while let Some(Ok(event)) = events.next().await {
            let Some(line) = event.data.filter(|data| !data.trim().is_empty()) else { continue };
            self.output.write(&line).await;
            if message.is_answered_by(&line) {
                return Ok(());
            }
        }
        let why = "its answer ended before its end".to_owned();
        Err(CallError::NoAnswer { url: client.url(), why })
    }

    fn version(&self, message: &Message) -> String {
        let agreed = || lock(&self.version).clone();
        message.version().map(str::to_owned).or_else(agreed).unwrap_or_else(|| FIRST_VERSION.to_owned())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
