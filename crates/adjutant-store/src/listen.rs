use adjutant_agent::{LeaseId, SessionId, WorkerId};
use sqlx::postgres::{PgListener, PgPoolOptions};

use crate::event_notifier::{EVENTS, LiveText, TEXT, WATCH, Watcher, parse_sessions};
use crate::store::{connect, timeout};
use crate::time_limits::TimeLimits;
use crate::worker_notifier::{LOST, NotifyTarget, QUEUE};
use crate::{Result, Store, Worker};

/// A notice that one process received from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Tasks may be claimed. All workers receive the same seed, from which they compute the order
    /// in which they claim.
    Queued { target: NotifyTarget, wake_seed: u32 },
    /// Leases were taken away.
    LeasesLost(Vec<LeaseId>),
    /// A process watches events.
    Watched(Watcher),
    /// There are new events in these sessions; none means in any session.
    Events(Option<Vec<SessionId>>),
    /// A piece of a streamed answer.
    Text(LiveText),
    /// The notice that [`Worker::echo`] sent to its own channel.
    Echo,
    /// A notice that only a later release understands.
    Unknown,
}

/// A dedicated connection that receives notices. Notices are hints: they may be lost.
pub struct Listener {
    listener: PgListener,
}

impl Listener {
    /// Connects for one worker. `url` should bypass a connection pooler that drops notices.
    pub async fn connect(url: &str, worker: WorkerId) -> Result<Self> {
        let own = own_channel(worker);
        Self::listen(url, &[QUEUE, LOST, WATCH, own.as_str()]).await
    }

    /// Connects for a process that watches events.
    pub async fn connect_watching(url: &str) -> Result<Self> {
        Self::listen(url, &[EVENTS, TEXT, WATCH]).await
    }

    async fn listen(url: &str, channels: &[&str]) -> Result<Self> {
        let pool = PgPoolOptions::new().max_connections(1);
        let pool = connect(url, pool, TimeLimits::LISTEN).await?;
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.eager_reconnect(false);
        timeout(crate::store::CONNECT_TIMEOUT, listener.listen_all(channels.iter().copied()))
            .await?;
        Ok(Self { listener })
    }

    /// Waits for the next notice; an error means that the connection is lost. Cancel safe.
    pub async fn next(&mut self) -> Result<Notice> {
        let Some(notice) = self.listener.try_recv().await? else {
            let closed = std::io::Error::new(
                std::io::ErrorKind::ConnectionAborted,
                "the server closed the connection",
            );
            return Err(sqlx::Error::Io(closed).into());
        };
        Ok(match notice.channel() {
            QUEUE => Notice::Queued {
                target: NotifyTarget::parse(notice.payload()),
                wake_seed: notice.process_id(),
            },
            LOST => Notice::LeasesLost(
                notice.payload().split(' ').filter_map(|id| id.parse().ok()).map(LeaseId).collect(),
            ),
            EVENTS => Notice::Events(parse_sessions(notice.payload())),
            WATCH => Watcher::parse(notice.payload()).map_or(Notice::Unknown, Notice::Watched),
            TEXT => LiveText::parse(notice.payload()).map_or(Notice::Unknown, Notice::Text),
            _ => Notice::Echo,
        })
    }
}

impl Worker {
    /// Sends a notice to this worker's own [`Listener`], to test that notices arrive.
    pub async fn echo(&self) -> Result<()> {
        let channel = own_channel(self.id);
        let call = self.calls.call(async |connection| {
            sqlx::query!("select pg_notify($1, '')", channel).execute(connection).await
        });
        call.await?;
        Ok(())
    }
}

impl Store {
    /// Notifies workers that tasks may be claimed. Returns at once; a lost notice costs only
    /// latency.
    pub fn notify_workers(&self, target: NotifyTarget) {
        self.worker_notifier.notify_queue(target);
    }
}

fn own_channel(worker: WorkerId) -> String {
    format!("adjutant_{worker}")
}
