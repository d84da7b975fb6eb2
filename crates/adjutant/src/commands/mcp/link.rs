//! Whom the messages go to: the server that was named, one that runs here, or one of our own.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Arguments;
use crate::client::{Client, Form};
use crate::commands::up::Everything;
use crate::config::Config;
use crate::private_postgres::{DATABASE, InUse, Place, PrivatePostgres, default_data_dir, url_of};

/// For the answer of a server that may be about to start: it takes connections before it can answer them.
const ANSWER: Duration = Duration::from_secs(15);

/// How long another process may take to say where it serves.
const START: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);

/// For tasks of our own to reach a point where another worker can go on; clients kill what takes much longer.
const GRACE: Duration = Duration::from_secs(1);

/// And for all that we started to end.
const END: Duration = Duration::from_secs(10);

pub struct Link {
    arguments: Arguments,
    config: Config,
    server: Mutex<Option<Server>>,
}

enum Server {
    Theirs(Client),
    Ours { client: Client, stop: CancellationToken, running: JoinHandle<anyhow::Result<()>> },
}

impl Server {
    fn client(&self) -> &Client {
        match self {
            Self::Theirs(client) | Self::Ours { client, .. } => client,
        }
    }

    /// Whether it makes no sense to ask it anything more.
    fn is_gone(&self) -> bool {
        match self {
            Self::Theirs(_) => false,
            Self::Ours { running, .. } => running.is_finished(),
        }
    }
}

impl Link {
    pub fn new(arguments: Arguments, config: Config) -> Self {
        Self { arguments, config, server: Mutex::new(None) }
    }

    /// The server; found or started by whoever asks first.
    pub async fn server(&self) -> anyhow::Result<Client> {
        let mut server = self.server.lock().await;
        if let Some(known) = server.as_ref().filter(|known| !known.is_gone()) {
            return Ok(known.client().clone());
        }
        let found = self.find_or_start().await?;
        let client = found.client().clone();
        *server = Some(found);
        Ok(client)
    }

    /// Nobody is there any more: the next who asks finds or starts another.
    pub async fn lost(&self, client: &Client) {
        let mut server = self.server.lock().await;
        let is_theirs = matches!(&*server, Some(Server::Theirs(known)) if known.url() == client.url());
        if is_theirs {
            tracing::warn!("the server at {} is gone", client.url());
            *server = None;
        }
    }

    /// Ends what was started here.
    pub async fn close(&self) {
        if let Some(Server::Ours { stop, running, .. }) = self.server.lock().await.take() {
            stop.cancel();
            match tokio::time::timeout(END, running).await {
                Ok(Ok(Ok(()))) => {}
                Ok(Ok(Err(error))) => tracing::warn!("the server ended badly: {error:#}"),
                Ok(Err(error)) => tracing::warn!("the server ended badly: {error}"),
                Err(_) => tracing::warn!("the server did not end in {} s", END.as_secs()),
            }
        }
    }

    fn client(&self, url: &str) -> anyhow::Result<Client> {
        Client::new(url, Arguments::said(&self.arguments.api_key), Form::Plain)
    }

    async fn find_or_start(&self) -> anyhow::Result<Server> {
        let arguments = &self.arguments;
        if let Some(url) = Arguments::said(&arguments.url) {
            return Ok(Server::Theirs(self.client(url)?));
        }
        // Who says where the data is or where to listen means that one and no other.
        if arguments.data_dir.is_none() && !arguments.listen.is_said() {
            let usual = self.client(&format!("http://{}", self.config.server.listen))?;
            if answers(&usual).await {
                tracing::info!("using the server at {}", usual.url());
                return Ok(Server::Theirs(usual));
            }
        }
        let dir = match &arguments.data_dir {
            Some(dir) => dir.clone(),
            None => default_data_dir()?,
        };
        let begun = Instant::now();
        loop {
            match self.start(&dir).await {
                Err(error) if error.downcast_ref::<InUse>().is_some() && begun.elapsed() < START => {
                    if let Some(theirs) = self.theirs(&dir).await? {
                        return Ok(theirs);
                    }
                    tokio::time::sleep(POLL).await;
                }
                started => return started,
            }
        }
    }

    /// The server of the process that has the data, if it serves already.
    async fn theirs(&self, dir: &Path) -> anyhow::Result<Option<Server>> {
        let Some(url) = url_of(dir) else { return Ok(None) };
        let client = self.client(&url)?;
        if !answers(&client).await {
            return Ok(None);
        }
        tracing::info!("using the server at {url}, which has {}", dir.display());
        Ok(Some(Server::Theirs(client)))
    }

    async fn start(&self, dir: &Path) -> anyhow::Result<Server> {
        let (arguments, config) = (&self.arguments, &self.config);
        let postgres = PrivatePostgres::start(Place::Kept(dir.to_owned())).await?;
        let bound = arguments.listen.bind_anywhere(config).await?;
        let all = Everything::start(&postgres.url(DATABASE), bound, &arguments.work, config).await?;
        postgres.tell_url(&all.url)?;
        tracing::info!("a server of our own is at {}, its data in {}", all.url, dir.display());
        let (client, stop) = (self.client(&all.url)?, CancellationToken::new());
        let running = tokio::spawn(keep(postgres, all, stop.clone()));
        Ok(Server::Ours { client, stop, running })
    }
}

/// Runs until it is told to stop, or a part of it ends by itself; then all of it ends.
async fn keep(
    mut postgres: PrivatePostgres,
    mut all: Everything,
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
    let (drained, served) = tokio::join!(all.working.worker.drain(GRACE), all.serving.drain());
    if drained.left_behind > 0 {
        tracing::warn!("{} tasks go on when their leases have run out", drained.left_behind);
    }
    served?;
    postgres.stop().await.context("cannot stop PostgreSQL").map(drop)
}

/// Whether a server of ours is there. Others may have the port.
async fn answers(client: &Client) -> bool {
    let healthy = tokio::time::timeout(ANSWER, client.get(&["healthz"], Vec::new())).await;
    matches!(healthy, Ok(Ok(answer)) if answer.value["status"] == "ok")
}
