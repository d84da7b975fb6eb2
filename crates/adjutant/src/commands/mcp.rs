//! `adjutant mcp`: an MCP server on standard input and output.
//!
//! A bridge: it forwards messages of the client to `/mcp` of a server and the answers back. The
//! server is a running one, or one that this process starts. The only state here is the name of the
//! session, so that a lost server can be replaced by another.

mod bridge;
mod message;
mod server_link;
mod stdio;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use adjutant_server::Dialect;
use clap::Args;
use rustix::process::Pid;
use uuid::Uuid;

use self::bridge::Bridge;
use self::server_link::ServerLink;
use crate::commands::serve::ListenArgs;
use crate::commands::work::WorkerArgs;
use crate::exit::CommandError;
use crate::logs;
use crate::signals::Signals;
use crate::telemetry::{self, Payloads};

/// How often the bridge checks that its parent process is alive.
const PARENT_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Run an MCP server on standard input and output
///
/// For MCP clients that start their servers themselves: one entry in their config is the whole
/// installation. It uses a server that runs on this machine, or the one given with --url. If there
/// is none, it runs everything in this process, as `up` does, until the client exits. Unfinished
/// tasks continue when the next one starts.
///
/// Calls without a session_id use a session of this connection, or the one given with --session,
/// which is created if it does not exist. Logs go to standard error.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant mcp                                       use ./adjutant.toml
  adjutant mcp --config /home/me/adjutant.toml       use these models, agents and tools
  adjutant mcp --session shop                        use the same session every time
  adjutant mcp --url https://adjutant.example        use a remote server, with ADJUTANT_API_KEY
")]
pub struct Arguments {
    /// The URL of a server to use [default: a server on this machine, else one in this process]
    #[arg(long, env = "ADJUTANT_URL", value_name = "URL", hide_env_values = true)]
    url: Option<String>,

    /// The API key; pass it in the environment to keep it out of process lists
    #[arg(long, env = "ADJUTANT_API_KEY", value_name = "KEY", hide_env_values = true)]
    api_key: Option<String>,

    /// The session of calls that name none [default: a new one for this connection]
    #[arg(long, short, env = "ADJUTANT_SESSION", value_name = "SESSION")]
    session: Option<String>,

    #[arg(
        long,
        value_name = "DIALECT",
        default_value = Dialect::default().as_str(),
        help = format!("The dialect of the tools: {}", Dialect::ALL.map(Dialect::as_str).join(", "))
    )]
    dialect: String,

    /// The data directory of a server in this process [default: $XDG_DATA_HOME/adjutant, else
    /// ~/.local/share/adjutant]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    #[command(flatten)]
    listen: ListenArgs,

    #[command(flatten)]
    work: WorkerArgs,

    #[command(flatten)]
    logs: logs::Logs,
}

impl Arguments {
    /// An empty variable counts as not set.
    fn non_empty(value: &Option<String>) -> Option<&str> {
        value.as_deref().map(str::trim).filter(|value| !value.is_empty())
    }

    /// The name of this connection's session.
    fn session(&self) -> String {
        Self::non_empty(&self.session)
            .map_or_else(|| format!("mcp-{}", Uuid::now_v7()), str::to_owned)
    }
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    // Before anything else, so that a parent that dies during the start is noticed.
    let parent = rustix::process::getppid();
    let dialect: Dialect = arguments
        .dialect
        .parse()
        .map_err(|refusal: adjutant_agent::Refusal| CommandError::usage(refusal.message))?;
    let config = arguments.work.config()?;
    let _telemetry = telemetry::init(&arguments.logs, Payloads::of(&config))?;
    let mut signals = Signals::listen()?;
    config.log_start("mcp");
    let session = arguments.session();
    let server = Arc::new(ServerLink::new(arguments, config));
    let bridge = Bridge::new(server.clone(), session, dialect)?;
    tracing::info!("MCP server is ready on standard input and output");
    // The first request waits for the same start.
    let start = async {
        match server.client().await {
            Ok(_) => std::future::pending().await,
            Err(error) => error,
        }
    };
    let ended = tokio::select! {
        () = bridge.run() => Ok(ExitCode::SUCCESS),
        error = start => Err(error),
        name = signals.next() => {
            tracing::info!("received SIG{name}");
            Ok(ExitCode::SUCCESS)
        }
        () = orphaned(parent) => {
            tracing::info!("the parent process has ended");
            Ok(ExitCode::SUCCESS)
        }
    };
    server.close().await;
    ended
}

/// Returns when the parent process has ended. The end of standard input is not enough: another
/// process may have inherited the pipe.
async fn orphaned(parent: Option<Pid>) {
    let mut interval = tokio::time::interval(PARENT_CHECK_INTERVAL);
    while rustix::process::getppid() == parent {
        interval.tick().await;
    }
}
