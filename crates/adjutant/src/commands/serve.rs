//! `adjutant serve`: one HTTP server of the fleet.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use adjutant_agent::DefinitionLimits;
use adjutant_server::{Desk, Door, DoorSettings, Hub, Policy, SessionLimits};
use adjutant_store::{Store, TenantLimits};
use anyhow::{Context, bail};
use clap::Args;
use tokio::net::{TcpListener, TcpSocket, lookup_host};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::config::Config;
use crate::crew::Publication;
use crate::logs;
use crate::open_files;
use crate::output::print_line;
use crate::signals::{Interrupted, Signals};
use crate::telemetry::{self, Payloads};

/// A thousand clients that connect at once are all let in at once: one that is not comes back a second later.
const BACKLOG: u32 = 4096;

/// The most calls to the database at once; more only wait for each other there.
const CONNECTIONS: u32 = 16;

/// Serve HTTP and MCP: sessions, tools, history
///
/// Any number of servers share one database, and none of them keeps anything: a client that loses one goes on at another.
/// SIGTERM or Ctrl-C drains: nothing new is taken in, what waits answers early, and it ends when all is answered. A second
/// one exits now.
///
/// Tasks are run by `adjutant work`. The agents of the config can be given tasks as soon as this is ready.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant serve --database-url postgres://adjutant@db.example/adjutant
  adjutant serve --listen 127.0.0.1:0 --json           on a free port, which it prints
  adjutant serve --listen 0.0.0.0:7433                 for others too; needs a key: adjutant keys create
  curl -d '{}' -H 'Content-Type: application/json' http://127.0.0.1:7433/v1/sessions
")]
pub struct Arguments {
    /// The database that the fleet shares
    #[arg(long, env = "DATABASE_URL", value_name = "URL", hide_env_values = true)]
    database_url: String,

    #[command(flatten)]
    listen: Listen,

    /// The config file: models, agents, limits [default: ADJUTANT_CONFIG, else adjutant.toml here if there is one]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    logs: logs::Logs,

    /// Print one JSON object when ready: url
    #[arg(long)]
    json: bool,
}

/// What `up` takes too.
#[derive(Debug, Args)]
pub struct Listen {
    /// Where to listen; port 0 is a free one [default: server.listen of the config, 127.0.0.1:7433]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
}

impl Listen {
    /// From now on clients can connect; they are answered when somebody serves.
    pub async fn bind(&self, config: &Config) -> anyhow::Result<Bound> {
        let wanted = self.listen.as_deref().unwrap_or(&config.server.listen);
        let address = lookup_host(wanted)
            .await
            .ok()
            .and_then(|mut found| found.next())
            .with_context(|| format!("--listen: {wanted} is no address and port, as 127.0.0.1:7433"))?;
        let listener = listen(address).map_err(|error| {
            if error.kind() == std::io::ErrorKind::AddrInUse {
                anyhow::anyhow!(
                    "{address} is taken by another program; choose another with --listen, as --listen {}:0 for any that is free",
                    address.ip()
                )
            } else {
                anyhow::Error::new(error).context(format!("cannot listen on {address}"))
            }
        })?;
        Ok(Bound { address: listener.local_addr()?, listener })
    }

    /// As [`Listen::bind`]; if nobody said where and the usual place is taken, any free one will do.
    pub async fn bind_anywhere(&self, config: &Config) -> anyhow::Result<Bound> {
        match self.bind(config).await {
            Err(_) if self.listen.is_none() => {
                Self { listen: Some("127.0.0.1:0".to_owned()) }.bind(config).await
            }
            bound => bound,
        }
    }

    /// Whether somebody said where.
    pub fn is_said(&self) -> bool {
        self.listen.is_some()
    }
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // So that one that was stopped can be started again at its address.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// An address that is ours.
pub struct Bound {
    address: SocketAddr,
    listener: TcpListener,
}

impl Bound {
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Serves until it is stopped or dropped. Refuses to, where others could come in without a key.
    pub async fn serve(self, database_url: &str, config: &Config) -> anyhow::Result<Serving> {
        // Each that waits has a connection.
        open_files::allow_all();
        let store = Store::open(database_url, CONNECTIONS).await?;
        let door = Door::new(
            Desk::new(store.clone(), Hub::start(store, database_url.to_owned()), policy(config)),
            settings(config),
        );
        door.check_address(self.address).await.map_err(|error| anyhow::anyhow!(error.into_message()))?;
        let stop = CancellationToken::new();
        let serving = tokio::spawn(door.serve(self.listener, stop.clone()));
        Ok(Serving { stop, serving: AbortOnDropHandle::new(serving) })
    }
}

/// A server that takes in requests.
pub struct Serving {
    stop: CancellationToken,
    serving: AbortOnDropHandle<std::io::Result<()>>,
}

impl Serving {
    /// Returns when it has ended by itself, which it should not.
    pub async fn ended(&mut self) -> anyhow::Error {
        match (&mut self.serving).await {
            Ok(Ok(())) => anyhow::anyhow!("the HTTP server ended by itself"),
            Ok(Err(error)) => anyhow::Error::new(error).context("the HTTP server ended by itself"),
            Err(error) => anyhow::Error::new(error).context("the HTTP server ended by itself"),
        }
    }

    /// Takes in nothing more, and returns when all is answered.
    pub async fn drain(self) -> anyhow::Result<()> {
        self.stop.cancel();
        self.serving.await?.context("the HTTP server")
    }
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let config = Config::load(arguments.config.as_deref())?;
    let _telemetry = telemetry::begin(&arguments.logs, Payloads::of(&config))?;
    let mut signals = Signals::listen()?;
    config.log_warnings();
    let bound = arguments.listen.bind(&config).await?;
    let url = bound.url();
    let publication = Publication::of_agents(&config);
    let store = Store::open(&arguments.database_url, 1).await?;
    publication.begin(&store).await.context("cannot tell of the agents")?;
    let _publishing = AbortOnDropHandle::new(tokio::spawn(publication.follow(store)));
    let mut serving = bound.serve(&arguments.database_url, &config).await?;
    print_line(&if arguments.json {
        serde_json::json!({"url": url}).to_string()
    } else {
        format!("Serving at {url}. Ctrl-C drains it.")
    })?;
    tokio::select! {
        error = serving.ended() => bail!(error),
        _ = signals.next() => {}
    }
    tracing::info!("draining; the same signal again exits now");
    tokio::select! {
        drained = serving.drain() => drained?,
        name = signals.next() => return Err(Interrupted(name).into()),
    }
    tracing::info!("drained");
    Ok(ExitCode::SUCCESS)
}

fn policy(config: &Config) -> Policy {
    let (limits, server) = (&config.limits, &config.server);
    Policy {
        operator: config.operator(),
        definitions: DefinitionLimits {
            max_turns: limits.max_turns_ceiling,
            may_delegate: limits.define_may_delegate,
            ..DefinitionLimits::default()
        },
        models: config.models.keys().cloned().collect(),
        model_aliases: config.model_names.aliases.clone(),
        sessions: SessionLimits {
            max_active: limits.session_max_active,
            max_queued: limits.session_max_queued,
        },
        tenants: TenantLimits {
            max_sessions: server.tenant_max_sessions,
            max_active: server.tenant_max_active,
            max_queued: server.tenant_max_queued,
        },
        skills: config.skills.values().map(|skill| skill.definition.clone()).collect(),
        webhooks: config.webhooks.reach,
        dialects: config.dialects.clone(),
    }
}

fn settings(config: &Config) -> DoorSettings {
    DoorSettings {
        max_body_bytes: config.server.max_body_bytes,
        tenant_requests_per_s: config.server.tenant_requests_per_s,
        session_status_per_s: config.server.session_status_per_s,
    }
}
