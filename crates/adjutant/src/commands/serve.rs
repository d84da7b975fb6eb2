//! `adjutant serve`: runs one HTTP server of the fleet.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use adjutant_agent::DefinitionLimits;
use adjutant_server::{HttpServer, HttpSettings, Hub, Policy, SessionLimits, ToolService};
use adjutant_store::{EventTexts, Store, TenantLimits};
use anyhow::{Context, bail};
use clap::Args;
use tokio::net::{TcpListener, TcpSocket, lookup_host};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::adopt_cap;
use crate::client::{Client, OutputFormat};
use crate::commands::work::host_and_process;
use crate::config::{Config, Role};
use crate::fleet_log;
use crate::logs;
use crate::open_files;
use crate::output::{print_json, print_line};
use crate::running::{self, Running};
use crate::signals::{Interrupted, Signals};
use crate::telemetry::{self, Payloads};
use crate::worker_setup::Publisher;

/// Room for a thousand clients that connect at once. A client that does not fit retries a second
/// later.
const BACKLOG: u32 = 4096;

/// How long a program that has the wanted address may take to say that it is Adjutant.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Database connections. More would only wait for each other inside PostgreSQL.
const CONNECTIONS: u32 = 16;

/// Serve HTTP and MCP: sessions, tools, history
///
/// Any number of servers share one database. They hold no state, so a client that loses one can
/// continue at another. SIGTERM or Ctrl-C drains the server: it accepts no new requests, ends waits
/// early, and exits when every request is answered. A second signal exits at once.
///
/// `adjutant work` runs the tasks. Agents of the config accept tasks as soon as the server is
/// ready.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant serve --database-url postgres://adjutant@db.example/adjutant
  adjutant serve --listen 127.0.0.1:0 --json           on any free port, which is printed
  adjutant serve --listen 0.0.0.0:7433                 for other machines; create a key first: adjutant keys create
  curl -d '{}' -H 'Content-Type: application/json' http://127.0.0.1:7433/v1/sessions
")]
pub struct Arguments {
    /// The URL of the fleet's database
    #[arg(long, env = "DATABASE_URL", value_name = "URL", hide_env_values = true)]
    database_url: String,

    #[command(flatten)]
    listen: ListenArgs,

    /// The config file: models, agents, limits [default: $ADJUTANT_CONFIG, else ./adjutant.toml if
    /// it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    logs: logs::Logs,

    /// Print one JSON object when ready: url
    #[arg(long)]
    json: bool,
}

/// Shared with `up`.
#[derive(Debug, Args)]
pub struct ListenArgs {
    /// The address to listen on; port 0 picks a free one [default: server.listen of the config,
    /// 127.0.0.1:7433]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
}

impl ListenArgs {
    /// Clients can connect from now on. Their requests are answered when the server runs.
    pub async fn bind(&self, config: &Config) -> anyhow::Result<BoundListener> {
        let wanted = self.listen.as_deref().unwrap_or(&config.server.listen);
        let address =
            lookup_host(wanted).await.ok().and_then(|mut found| found.next()).with_context(
                || format!("--listen: {wanted} is not an address and port, like 127.0.0.1:7433"),
            )?;
        match listen(address) {
            Ok(listener) => Ok(BoundListener { address: listener.local_addr()?, listener }),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                let holder = holder_of(address).await;
                bail!(
                    "{address} is in use by {holder}; choose another with --listen, or --listen {}:0 for any free port",
                    address.ip()
                )
            }
            Err(error) => {
                Err(anyhow::Error::new(error).context(format!("cannot listen on {address}")))
            }
        }
    }

    /// Like [`ListenArgs::bind`], but takes any free port if no address was given and the default
    /// is in use.
    pub async fn bind_or_any_port(&self, config: &Config) -> anyhow::Result<BoundListener> {
        match self.bind(config).await {
            Err(_) if self.listen.is_none() => {
                Self { listen: Some("127.0.0.1:0".to_owned()) }.bind(config).await
            }
            listener => listener,
        }
    }

    /// Whether an address was given explicitly.
    pub fn is_given(&self) -> bool {
        self.listen.is_some()
    }
}

/// Who listens at an address, for people.
async fn holder_of(address: SocketAddr) -> String {
    if let Some(running) = running::at(address) {
        return running.to_string();
    }
    let host =
        if address.ip().is_unspecified() { Ipv4Addr::LOCALHOST.into() } else { address.ip() };
    let url = format!("http://{}", SocketAddr::new(host, address.port()));
    let client = Client::new(&url, None, OutputFormat::Text);
    match client {
        Ok(client) if is_adjutant(&client, PROBE_TIMEOUT).await => {
            format!("another Adjutant at {url}, which is not one of this user's servers")
        }
        Ok(_) | Err(_) => "another program".to_owned(),
    }
}

/// Whether the program that listens there is an Adjutant server.
pub async fn is_adjutant(client: &Client, patience: Duration) -> bool {
    let healthy = tokio::time::timeout(patience, client.get(&["healthz"], Vec::new())).await;
    matches!(healthy, Ok(Ok(answer)) if answer.value["status"] == "ok")
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // So that a restarted server can bind the same address.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// A bound address.
pub struct BoundListener {
    address: SocketAddr,
    listener: TcpListener,
}

impl BoundListener {
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Serves until it is stopped or dropped. Refuses to serve other machines if there is no API
    /// key.
    pub async fn serve(self, database_url: &str, config: &Config) -> anyhow::Result<RunningServer> {
        logs::set_server(&host_and_process());
        // Every waiting client holds a connection.
        open_files::raise_limit();
        let store = Store::open(database_url, CONNECTIONS)
            .await?
            .with_context_versions(config.limits.context_versions);
        let watching = tokio::spawn(fleet_log::run(
            store.clone(),
            Duration::from_secs(config.server.fleet_check_s),
        ));
        let server = HttpServer::new(
            ToolService::new(
                store.clone(),
                Hub::start(store, database_url.to_owned()),
                policy(config),
            ),
            settings(config),
        );
        server
            .check_address(self.address)
            .await
            .map_err(|error| anyhow::anyhow!(error.into_message()))?;
        let stop = CancellationToken::new();
        let serving = tokio::spawn(server.serve(self.listener, stop.clone()));
        Ok(RunningServer {
            stop,
            serving: AbortOnDropHandle::new(serving),
            _watching: AbortOnDropHandle::new(watching),
        })
    }
}

/// A server that accepts requests.
pub struct RunningServer {
    stop: CancellationToken,
    serving: AbortOnDropHandle<std::io::Result<()>>,
    /// Logs the fleet's troubles.
    _watching: AbortOnDropHandle<()>,
}

impl RunningServer {
    /// Returns if the server ends by itself, which is an error.
    pub async fn ended(&mut self) -> anyhow::Error {
        match (&mut self.serving).await {
            Ok(Ok(())) => anyhow::anyhow!("the HTTP server stopped unexpectedly"),
            Ok(Err(error)) => {
                anyhow::Error::new(error).context("the HTTP server stopped unexpectedly")
            }
            Err(error) => anyhow::Error::new(error).context("the HTTP server stopped unexpectedly"),
        }
    }

    /// Accepts no new requests, and returns when all are answered.
    pub async fn drain(self) -> anyhow::Result<()> {
        self.stop.cancel();
        self.serving.await?.context("the HTTP server failed")
    }
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let config = Config::load(arguments.config.as_deref(), Role::Server)?;
    let _telemetry = telemetry::init(&arguments.logs, Payloads::of(&config))?;
    let mut signals = Signals::listen()?;
    config.log_start("serve");
    let listener = arguments.listen.bind(&config).await?;
    let url = listener.url();
    let store = Store::open(&arguments.database_url, 1).await?;
    adopt_cap::adopt(&store, &config).await?;
    let publisher = Publisher::without_tools(&config, &host_and_process());
    let publishing = publisher.start(store).await.context("cannot publish the agents")?;
    let mut serving = listener.serve(&arguments.database_url, &config).await?;
    tracing::info!(server.url = url, "server is ready at {url}");
    let _listed = Running::new("serve", &url, None, &config).list();
    if arguments.json {
        print_json(&serde_json::json!({"url": url}).to_string())?;
    } else {
        print_line(format!("Serving at {url}. Ctrl-C drains it."))?;
    }
    tokio::select! {
        error = serving.ended() => bail!(error),
        _ = signals.next() => {}
    }
    tracing::info!("draining; send the signal again to exit at once");
    let draining = async { tokio::join!(serving.drain(), publishing.stop()).0 };
    tokio::select! {
        drained = draining => drained?,
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
            max_prompt_tokens: Some(limits.max_prompt_tokens),
            may_delegate: limits.define_may_delegate,
            ..DefinitionLimits::default()
        },
        models: config.models.keys().cloned().collect(),
        model_tenants: config
            .models
            .iter()
            .filter_map(|(name, model)| Some((name.clone(), model.tenants.clone()?)))
            .collect(),
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
        webhooks: config.webhooks.network,
        dialects: config.dialects.clone(),
    }
}

fn settings(config: &Config) -> HttpSettings {
    HttpSettings {
        max_body_bytes: config.server.max_body_bytes,
        tenant_requests_per_s: config.server.tenant_requests_per_s,
        session_status_per_s: config.server.session_status_per_s,
        tenant_max_reads: config.server.tenant_max_reads,
        search_time: Duration::from_millis(config.server.search_ms),
        tenant_max_waits: config.server.tenant_max_waits,
        tenant_max_connections: config.server.tenant_max_connections,
        address_max_connections: config.server.address_max_connections,
        // A body that the one limit allows is not refused by the others for its size.
        bodies_max_bytes: config.server.bodies_max_bytes.max(config.server.max_body_bytes),
        tenant_bodies_max_bytes: config
            .server
            .tenant_bodies_max_bytes
            .max(config.server.max_body_bytes),
        event_texts: match Payloads::of(config) {
            Payloads::Omitted => EventTexts::Omitted,
            Payloads::Logged => EventTexts::Included,
        },
        // Checked when the config was read.
        trusted_proxies: config.server.trusted_networks().unwrap_or_default(),
    }
}
