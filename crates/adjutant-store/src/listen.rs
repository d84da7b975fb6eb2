use adjutant_agent::{LeaseId, SessionId, WorkerId};
use sqlx::postgres::{PgListener, PgPoolOptions};

use crate::event_notifier::{EVENTS, LiveText, TEXT, WATCH, Watching, read_sessions};
use crate::notice::{LOST, NotifyTarget, QUEUE};
use crate::store::{connect, timeout};
use crate::{Result, Store, Worker};

/// What one process heard from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// Something may be claimed. Everyone who hears of it sees the same lot, and can tell who goes first.
    Queued { whom: NotifyTarget, lot: u32 },
    /// Leases were taken away.
    Lost(Vec<LeaseId>),
    /// Somebody watches what happens.
    Watched(Watching),
    /// Something has happened, in these sessions if they are named.
    Happened(Option<Vec<SessionId>>),
    /// A model says something.
    Said(LiveText),
    /// What we said to ourselves came back.
    Echo,
    /// Of a release that has more to say.
    Unknown,
}

/// A connection of its own that hears notices. It is a hint that arrives early, or never.
pub struct Listener {
    listener: PgListener,
}

impl Listener {
    /// Connects for one worker. `url` may lead past a pooler that does not pass notices on.
    pub async fn connect(url: &str, worker: WorkerId) -> Result<Self> {
        let own = own_channel(worker);
        Self::hearing(url, &[QUEUE, LOST, WATCH, own.as_str()]).await
    }

    /// Connects for one who watches what happens.
    pub async fn connect_watching(url: &str) -> Result<Self> {
        Self::hearing(url, &[EVENTS, TEXT, WATCH]).await
    }

    async fn hearing(url: &str, channels: &[&str]) -> Result<Self> {
        let pool = connect(url, PgPoolOptions::new().max_connections(1)).await?;
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.eager_reconnect(false);
        timeout(crate::store::CONNECT, listener.listen_all(channels.iter().copied())).await?;
        Ok(Self { listener })
    }

    /// Waits for the next news; an error means that the connection is gone.
    pub async fn next(&mut self) -> Result<News> {
        let Some(notice) = self.listener.try_recv().await? else {
            let gone = std::io::Error::new(
                std::io::ErrorKind::ConnectionAborted,
                "it closed the connection",
            );
            return Err(sqlx::Error::Io(gone).into());
        };
        Ok(match notice.channel() {
            QUEUE => News::Queued {
                whom: NotifyTarget::read(notice.payload()),
                lot: notice.process_id(),
            },
            LOST => News::Lost(
                notice.payload().split(' ').filter_map(|id| id.parse().ok()).map(LeaseId).collect(),
            ),
            EVENTS => News::Happened(read_sessions(notice.payload())),
            WATCH => Watching::read(notice.payload()).map_or(News::Unknown, News::Watched),
            TEXT => LiveText::read(notice.payload()).map_or(News::Unknown, News::Said),
            _ => News::Echo,
        })
    }
}

impl Worker {
    /// Says something that this worker's own [`Listener`] hears, if notices come through at all.
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
    /// Tells workers that something may be claimed. Returns at once; a hint that is lost costs time and nothing else.
    pub fn tell(&self, whom: NotifyTarget) {
        self.notices.queued(whom);
    }
}

fn own_channel(worker: WorkerId) -> String {
    format!("adjutant_{worker}")
}
