use std::time::Duration;

use adjutant_agent::TextLimits;
use adjutant_store::DEFAULT_CONTEXT_VERSIONS;

use crate::WebhookSettings;

/// The default of [`Settings::tool_patience`].
pub const DEFAULT_TOOL_PATIENCE: Duration = Duration::from_secs(120);

/// The settings of a worker.
#[derive(Clone)]
pub struct Settings {
    pub database_url: String,
    /// The database URL for LISTEN, if it differs: a pooler may not forward notifications.
    pub listen_url: Option<String>,
    /// A name for people: host and process.
    pub name: String,
    pub pool: String,
    /// The most tasks that this worker runs at once, besides the cap of the whole fleet.
    pub concurrency: u16,
    /// How long a lease lasts without a renewal.
    pub lease: Duration,
    /// The longest time that a task may run, over all its attempts.
    pub time_limit: Option<Duration>,
    /// How many changes of each key of a shared context are kept.
    pub context_versions: i32,
    /// The limits of the shared contexts that tasks write.
    pub texts: TextLimits,
    /// How long queued tasks wait for tools that no living worker has, before they fail.
    pub tool_patience: Duration,
    pub webhooks: WebhookSettings,
}

impl Settings {
    /// Ten concurrent tasks of the pool `default`, a lease of 30 seconds and no time limit.
    pub fn new(database_url: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            database_url: database_url.into(),
            listen_url: None,
            name: name.into(),
            pool: "default".to_owned(),
            concurrency: 10,
            lease: Duration::from_secs(30),
            time_limit: None,
            context_versions: DEFAULT_CONTEXT_VERSIONS,
            texts: TextLimits::DEFAULT,
            tool_patience: DEFAULT_TOOL_PATIENCE,
            webhooks: WebhookSettings::default(),
        }
    }

    /// A lease is renewed three times before it expires.
    pub(crate) fn renew_every(&self) -> Duration {
        self.lease / 3
    }

    /// After this time without a renewal the worker starts nothing more under the lease.
    pub(crate) fn stop_after(&self) -> Duration {
        self.lease * 2 / 3
    }

    /// How long a lease has been expired before its worker counts as dead.
    pub(crate) fn sweep_grace(&self) -> Duration {
        self.lease / 6
    }

    /// Handlers store one turn at a time and seldom all at once, so they share connections.
    pub(crate) fn connections(&self) -> u32 {
        (u32::from(self.concurrency) / 4).clamp(4, 20)
    }
}

/// Leaves out the URLs, which may contain a password.
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
