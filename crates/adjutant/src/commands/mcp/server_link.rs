//! The server of the bridge: the one of --url, one that runs on this machine, or one in this
//! process.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Arguments;
use crate::client::{Client, OutputFormat};
use crate::commands::serve::is_adjutant;
use crate::commands::up::AllInOne;
use crate::config::Config;
use crate::exit::CommandError;
use crate::private_postgres::{
    DATABASE, DataLocation, InUse, PrivatePostgres, default_data_dir, published_url,
};
use crate::running::{self, Entry, Running};

/// A server that is starting accepts connections before it can answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// How long another process may take until it publishes its URL.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);

/// How long the worker of this process may take to release its tasks. Clients kill a server that
/// takes much longer.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// How long everything may take to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

pub struct ServerLink {
    arguments: Arguments,
    config: Config,
    server: Mutex<Option<Server>>,
}

enum Server {
    Existing(Client),
    Owned { client: Client, stop: CancellationToken, running: JoinHandle<anyhow::Result<()>> },
}

impl Server {
    fn client(&self) -> &Client {
        match self {
            Self::Existing(client) | Self::Owned { client, .. } => client,
        }
    }

    /// Whether the server has stopped.
    fn has_stopped(&self) -> bool {
        match self {
            Self::Existing(_) => false,
            Self::Owned { running, .. } => running.is_finished(),
        }
    }
}

impl ServerLink {
    pub fn new(arguments: Arguments, config: Config) -> Self {
        Self { arguments, config, server: Mutex::new(None) }
    }

    /// The server; the first caller finds or starts it.
    pub async fn client(&self) -> anyhow::Result<Client> {
        let mut server = self.server.lock().await;
        if let Some(known) = server.as_ref().filter(|known| !known.has_stopped()) {
            return Ok(known.client().clone());
        }
        let found = self.find_or_start().await?;
        let client = found.client().clone();
        *server = Some(found);
        Ok(client)
    }

    /// Forgets a server that does not answer, so that the next call finds or starts another.
    pub async fn forget(&self, client: &Client) {
        let mut server = self.server.lock().await;
        let is_existing =
            matches!(&*server, Some(Server::Existing(known)) if known.url() == client.url());
        if is_existing {
            tracing::warn!("lost the server at {}", client.url());
            *server = None;
        }
    }

    /// Stops the server of this process, if there is one.
    pub async fn close(&self) {
        if let Some(Server::Owned { stop, running, .. }) = self.server.lock().await.take() {
            stop.cancel();
            match tokio::time::timeout(STOP_TIMEOUT, running).await {
                Ok(Ok(Ok(()))) => {}
                Ok(Ok(Err(error))) => tracing::warn!("the server failed: {error:#}"),
                Ok(Err(error)) => tracing::warn!("the server failed: {error}"),
                Err(_) => tracing::warn!("the server did not stop in {} s", STOP_TIMEOUT.as_secs()),
            }
        }
    }

    fn client_of(&self, url: &str) -> anyhow::Result<Client> {
        Client::new(url, Arguments::non_empty(&self.arguments.api_key), OutputFormat::Text)
    }

    async fn find_or_start(&self) -> anyhow::Result<Server> {
        let arguments = &self.arguments;
        if let Some(url) = Arguments::non_empty(&arguments.url) {
            return Ok(Server::Existing(self.client_of(url)?));
        }
        // A given data directory or address means a new server, not any server that runs
        // here.
        if arguments.data_dir.is_none() && !arguments.listen.is_given() {
            let default = self.client_of(&format!("http://{}", self.config.server.listen))?;
            if is_adjutant(&default, ANSWER_TIMEOUT).await {
                self.check_config(&default)?;
                tracing::info!("using the server at {}", default.url());
                return Ok(Server::Existing(default));
            }
        }
        let dir = match &arguments.data_dir {
            Some(dir) => dir.clone(),
            None => default_data_dir()?,
        };
        let started_at = Instant::now();
        loop {
            match self.start(&dir).await {
                Err(error)
                    if error.downcast_ref::<InUse>().is_some()
                        && started_at.elapsed() < START_TIMEOUT =>
                {
                    if let Some(existing) = self.existing(&dir).await? {
                        return Ok(existing);
                    }
                    tokio::time::sleep(POLL).await;
                }
                started => return started,
            }
        }
    }

    /// The server of the process that holds the data directory, if it is up.
    async fn existing(&self, dir: &Path) -> anyhow::Result<Option<Server>> {
        let Some(url) = published_url(dir) else { return Ok(None) };
        let client = self.client_of(&url)?;
        if !is_adjutant(&client, ANSWER_TIMEOUT).await {
            return Ok(None);
        }
        self.check_config(&client)?;
        tracing::info!("using the server at {url}, which runs on {}", dir.display());
        Ok(Some(Server::Existing(client)))
    }

    /// Refuses a server that runs with another config than this process was given.
    fn check_config(&self, client: &Client) -> anyhow::Result<()> {
        let Some(wanted) = self.config.path.as_deref().map(running::absolute) else {
            return Ok(());
        };
        let (url, wanted_path) = (client.url(), wanted.display());
        let Some(running) = running::of_url(&url) else {
            tracing::warn!(
                "using the server at {url}, whose config is not known here, instead of {wanted_path}"
            );
            return Ok(());
        };
        if running.config.as_ref() == Some(&wanted) {
            return Ok(());
        }
        Err(CommandError::usage(format!(
            "{running} has another config than {wanted_path}. To use that server as it is, pass \
             --url {url}; to run {wanted_path} beside it, pass --data-dir with a directory of its \
             own; or restart it with --config {wanted_path}"
        ))
        .into())
    }

    async fn start(&self, dir: &Path) -> anyhow::Result<Server> {
        let (arguments, config) = (&self.arguments, &self.config);
        arguments.work.check_machine(config)?;
        let postgres = PrivatePostgres::start(DataLocation::Directory(dir.to_owned())).await?;
        let listener = arguments.listen.bind_or_any_port(config).await?;
        let all =
            AllInOne::start(&postgres.url(DATABASE), listener, &arguments.work, config).await?;
        postgres.publish_url(&all.url)?;
        let listed = Running::new("mcp", &all.url, Some(postgres.data_dir()), config).list();
        tracing::info!("started a server at {} on {}", all.url, dir.display());
        let (client, stop) = (self.client_of(&all.url)?, CancellationToken::new());
        let running = tokio::spawn(run_owned(postgres, all, listed, stop.clone()));
        Ok(Server::Owned { client, stop, running })
    }
}

/// Runs until it is stopped or a part of it fails, and then stops all parts.
async fn run_owned(
    mut postgres: PrivatePostgres,
    mut all: AllInOne,
    _listed: Option<Entry>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    tokio::select! {
        error = postgres.stopped() => return Err(error),
        error = all.ended() => {
            postgres.stop().await?;
            return Err(error);
        }
        () = stop.cancelled() => {}
    }
    let (drained, served) = tokio::join!(all.working.drain(DRAIN_TIMEOUT), all.serving.drain());
    if drained.left_behind > 0 {
        tracing::warn!("{} tasks continue when their leases expire", drained.left_behind);
    }
    served?;
    postgres.stop().await.context("cannot stop PostgreSQL").map(drop)
}
