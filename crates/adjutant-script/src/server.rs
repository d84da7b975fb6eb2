use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::line::Lines;
use crate::record::{End, Keep, OnEnd, Recorded, Tally, TurnCount};
use crate::records::Records;
use crate::script::Script;

/// After this, what a test waits for does not come.
const PATIENCE: Duration = Duration::from_secs(30);

/// A thousand clients that connect at once are all let in at once: one that is not comes back a second later.
const BACKLOG: u32 = 4096;

/// A server that plays a script until it is dropped; then all its connections are closed.
pub struct ScriptServer {
    address: SocketAddr,
    records: Arc<Records>,
    _running: DropGuard,
}

/// How a server is started, besides its script.
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
    /// Starts on a free port of 127.0.0.1; it takes connections when this returns.
    pub async fn start(script: Script) -> io::Result<Self> {
        Self::start_with(script, Options::default()).await
    }

    pub async fn start_with(script: Script, options: Options) -> io::Result<Self> {
        let listener = listen(options.listen)?;
        let address = listener.local_addr()?;
        let records = Arc::new(Records::new(script, options.keep, options.on_end));
        let all = CancellationToken::new();
        let serving = crate::http::serve(Lines { listener, all: all.clone() }, records.clone());
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

    /// All requests so far, in the order of arrival; they are copied, so not for a loop over many.
    pub fn requests(&self) -> Vec<Recorded> {
        self.records.requests(|_| true)
    }

    /// Those of the conversations whose assignment contains this.
    pub fn requests_of(&self, assignment: &str) -> Vec<Recorded> {
        self.records.requests(|request| {
            request.asked.is_some() && request.assignment().contains(assignment)
        })
    }

    pub fn unexpected(&self) -> Vec<Recorded> {
        self.records.requests(|request| matches!(request.end, Some(End::Unexpected(_))))
    }

    /// How often each turn of each conversation was asked for and answered.
    pub fn turns(&self) -> Vec<TurnCount> {
        self.records.turns()
    }

    /// The turns that were answered in full more than once: each was paid twice.
    pub fn answered_twice(&self) -> Vec<TurnCount> {
        self.turns().into_iter().filter(|turn| turn.answered > 1).collect()
    }

    pub fn tally(&self) -> Tally {
        *self.records.tally.borrow()
    }

    /// Returns when so many requests have come, whether they are over or not.
    ///
    /// # Panics
    /// If they do not come within 30 seconds.
    pub async fn wait_for_requests(&self, count: usize) {
        self.wait_until("the requests have come", |tally| tally.requests >= count).await;
    }

    /// Returns when the tally is as wanted.
    ///
    /// # Panics
    /// If that is not so within 30 seconds.
    pub async fn wait_until(&self, what: &str, holds: impl Fn(&Tally) -> bool) {
        let mut tally = self.records.tally.subscribe();
        let waited = tokio::time::timeout(PATIENCE, tally.wait_for(|tally| holds(tally))).await;
        assert!(matches!(waited, Ok(Ok(_))), "waited in vain until {what}: {:?}", self.tally());
    }

    /// # Panics
    /// If there was a request that the script does not answer, or that the vendor would not take; it says which and why.
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
    // So that one that was stopped can be started again at its address.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn describe(request: &Recorded) -> String {
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
