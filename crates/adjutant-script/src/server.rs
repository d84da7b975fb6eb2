use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::connections::ConnectionListener;
use crate::recorded_request::{End, Keep, OnEnd, RecordedRequest, RequestCounts, TurnCount};
use crate::recorder::Recorder;
use crate::script::Script;

/// How long the `wait_` methods wait.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// Large enough for a thousand clients that connect at once: a refused client would retry after a
/// second.
const BACKLOG: u32 = 4096;

/// A server that answers by a script until it is dropped, which closes all of its connections.
pub struct ScriptServer {
    address: SocketAddr,
    records: Arc<Recorder>,
    _running: DropGuard,
}

/// The options of a server.
pub struct Options {
    pub listen: SocketAddr,
    pub keep: Keep,
    pub on_end: Option<OnEnd>,
}

impl Default for Options {
    fn default() -> Self {
        Self { listen: (Ipv4Addr::LOCALHOST, 0).into(), keep: Keep::default(), on_end: None }
    }
}

impl ScriptServer {
    /// Starts on a free port of 127.0.0.1. It accepts connections when this returns.
    pub async fn start(script: Script) -> io::Result<Self> {
        Self::start_with(script, Options::default()).await
    }

    pub async fn start_with(script: Script, options: Options) -> io::Result<Self> {
        let listener = listen(options.listen)?;
        let address = listener.local_addr()?;
        let records = Arc::new(Recorder::new(script, options.keep, options.on_end));
        let all = CancellationToken::new();
        let serving =
            crate::http::serve(ConnectionListener { listener, all: all.clone() }, records.clone());
        tokio::spawn(all.clone().run_until_cancelled_owned(serving));
        Ok(Self { address, records, _running: all.drop_guard() })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The server's own URL, without a path: the Anthropic wire's base URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn anthropic_base_url(&self) -> String {
        self.url()
    }

    pub fn openai_base_url(&self) -> String {
        format!("{}/v1", self.url())
    }

    /// Copies of all requests so far, in the order of arrival.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.records.requests(|_| true)
    }

    /// The requests of conversations whose assignment contains this text.
    pub fn requests_of(&self, assignment: &str) -> Vec<RecordedRequest> {
        self.records.requests(|request| {
            request.parsed.is_some() && request.assignment().contains(assignment)
        })
    }

    pub fn unexpected(&self) -> Vec<RecordedRequest> {
        self.records.requests(|request| matches!(request.end, Some(End::Unexpected(_))))
    }

    /// How often each turn of each conversation was requested and answered.
    pub fn turns(&self) -> Vec<TurnCount> {
        self.records.turns()
    }

    /// The turns that were answered in full more than once, and so would be paid twice.
    pub fn answered_twice(&self) -> Vec<TurnCount> {
        self.turns().into_iter().filter(|turn| turn.answered > 1).collect()
    }

    pub fn request_counts(&self) -> RequestCounts {
        *self.records.counts.borrow()
    }

    /// Waits until so many requests have arrived.
    ///
    /// # Panics
    /// If they do not arrive within 30 seconds.
    pub async fn wait_for_requests(&self, count: usize) {
        self.wait_until("the requests have come", |counts| counts.requests >= count).await;
    }

    /// Waits until the counts satisfy the condition.
    ///
    /// # Panics
    /// If they do not within 30 seconds.
    pub async fn wait_until(&self, what: &str, holds: impl Fn(&RequestCounts) -> bool) {
        let mut counts = self.records.counts.subscribe();
        let waited =
            tokio::time::timeout(WAIT_TIMEOUT, counts.wait_for(|counts| holds(counts))).await;
        assert!(
            matches!(waited, Ok(Ok(_))),
            "timed out waiting until {what}: {:?}",
            self.request_counts()
        );
    }

    /// # Panics
    /// If there was an unexpected request; the message lists them with the reasons.
    #[track_caller]
    pub fn assert_no_unexpected(&self) {
        let unexpected = self.unexpected();
        let listed: Vec<String> = unexpected.iter().map(describe).collect();
        assert!(
            unexpected.is_empty(),
            "{} unexpected requests:\n{}",
            unexpected.len(),
            listed.join("\n")
        );
    }

    /// # Panics
    /// If a turn was answered in full more than once.
    #[track_caller]
    pub fn assert_nothing_answered_twice(&self) {
        let twice = self.answered_twice();
        assert!(twice.is_empty(), "answered more than once: {twice:#?}");
    }

    /// Ends the server.
    ///
    /// # Panics
    /// If there was an unexpected request.
    #[track_caller]
    pub fn finish(self) {
        self.assert_no_unexpected();
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Allows a restart at the same address.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn describe(request: &RecordedRequest) -> String {
    let why = match &request.end {
        Some(End::Unexpected(why)) => why.as_str(),
        Some(End::Answered | End::Failed | End::HungUp) | None => "",
    };
    let assignment: String = request.assignment().chars().take(80).collect();
    format!(
        "  {}. {} {} (assignment {assignment:?}): {why}",
        request.number, request.method, request.path
    )
}
