use std::time::Duration;

use crate::WebhookSettings;

/// How a worker works.
#[derive(Clone)]
pub struct Settings {
    pub database_url: String,
    /// Where notices are heard, if that is not the same: past a pooler that does not pass them on.
    pub listen_url: Option<String>,
    /// For people: host and process.
    pub name: String,
    pub pool: String,
    /// The most tasks that it runs at once, whatever the fleet's cap.
    pub concurrency: u16,
    /// How long a task is this worker's without a renewal.
    pub lease: Duration,
    /// The longest that a task may run, over all its attempts.
    pub time_limit: Option<Duration>,
    /// How webhooks are told.
    pub webhooks: WebhookSettings,
}

impl Settings {
    /// Ten tasks at a time, of the pool `default`, with a lease of half a minute and no time limit.
    pub fn new(database_url: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            database_url: database_url.into(),
            listen_url: None,
            name: name.into(),
            pool: "default".to_owned(),
            concurrency: 10,
            lease: Duration::from_secs(30),
            time_limit: None,
            webhooks: WebhookSettings::default(),
        }
    }

    /// Three times a lease.
    pub(crate) fn renew_every(&self) -> Duration {
        self.lease / 3
    }

    /// After this long without a renewal it no longer begins anything under the lease.
    pub(crate) fn stop_after(&self) -> Duration {
        self.lease * 2 / 3
    }

    /// How long a lease has run out before others are taken for dead.
    pub(crate) fn sweep_grace(&self) -> Duration {
        self.lease / 6
    }

    /// Handlers store their turns one at a time, and seldom all at once.
    pub(crate) fn connections(&self) -> u32 {
        (u32::from(self.concurrency) / 4).clamp(4, 20)
    }
}

/// Without the URLs, which may have a password in them.
impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("name", &self.name)
            .field("pool", &self.pool)
            .field("concurrency", &self.concurrency)
            .field("lease", &self.lease)
            .field("time_limit", &self.time_limit)
            .finish_non_exhaustive()
    }
}
