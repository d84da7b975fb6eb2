//! `adjutant mcp`: the tools for MCP clients that start their servers themselves.
//!
//! It is a bridge: what the client writes goes to `/mcp` of a server, what that answers goes back. The server is one that runs, or one
//! of our own. Nothing is kept here but the session's name, so a server that is lost is followed by another.

mod bridge;
mod link;
mod message;
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
use self::link::Link;
use crate::commands::serve::Listen;
use crate::commands::work::Work;
use crate::exit::Told;
use crate::logs;
use crate::signals::Signals;
use crate::telemetry::{self, Payloads};

/// How often we look whether whoever started us is still there.
const PARENT: Duration = Duration::from_millis(500);

/// Speak MCP on standard input and output
///
/// For MCP clients that start their servers themselves: this line in their config is the whole installation. It uses the
/// server that runs here, or at --url; if there is none it runs everything itself, as `up` does, for as long as the client
/// lives. Tasks that are unfinished then go on when the next one starts.
///
/// Calls without a session_id are in a session of this connection's own, or in that of --session, which is made if it is not
/// there. Logs go to standard error.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant mcp                                       with the adjutant.toml of this folder
  adjutant mcp --config /home/me/adjutant.toml       with these models, agents and tools
  adjutant mcp --session shop                        in the same session every time
  adjutant mcp --url https://adjutant.example        at a server elsewhere, with ADJUTANT_API_KEY
")]
pub struct Arguments {
    /// Where the server is; then none is started [default: the one that runs here, else one of our own]
    #[arg(long, env = "ADJUTANT_URL", value_name = "URL", hide_env_values = true)]
    url: Option<String>,

    /// The key to call it with; better in the environment, where others do not see it
    #[arg(long, env = "ADJUTANT_API_KEY", value_name = "KEY", hide_env_values = true)]
    api_key: Option<String>,

    /// The session of calls that name none [default: one of this connection's own]
    #[arg(long, short, env = "ADJUTANT_SESSION", value_name = "SESSION")]
    session: Option<String>,

    /// Whose contract the tools are of
    #[arg(long, value_name = "DIALECT", default_value = "spec")]
    dialect: String,

    /// Of a server of our own: where the data is [default: $XDG_DATA_HOME/adjutant, else ~/.local/share/adjutant]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    #[command(flatten)]
    listen: Listen,

    #[command(flatten)]
    work: Work,

    #[command(flatten)]
    logs: logs::Logs,
}

impl Arguments {
    /// An empty variable says nothing.
    fn said(value: &Option<String>) -> Option<&str> {
        value.as_deref().map(str::trim).filter(|value| !value.is_empty())
    }

    /// The name of the session of this connection.
    fn session(&self) -> String {
        Self::said(&self.session).map_or_else(|| format!("mcp-{}", Uuid::now_v7()), str::to_owned)
    }
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    // First of all: who dies while we start is missed all the same.
    let parent = rustix::process::getppid();
    let dialect: Dialect =
        arguments.dialect.parse().map_err(|refusal: adjutant_agent::Refusal| Told::usage(refusal.message))?;
    let config = arguments.work.config()?;
    let _telemetry = telemetry::begin(&arguments.logs, Payloads::of(&config))?;
    let mut signals = Signals::listen()?;
    config.log_warnings();
    let session = arguments.session();
    let link = Arc::new(Link::new(arguments, config));
    let bridge = Bridge::new(link.clone(), session, dialect)?;
    tracing::info!("speaking MCP on standard input and output");
    // Whoever asks first waits for the same.
    let start = async {
        match link.server().await {
            Ok(_) => std::future::pending().await,
            Err(error) => error,
        }
    };
    let ended = tokio::select! {
        () = bridge.run() => Ok(ExitCode::SUCCESS),
        error = start => Err(error),
        name = signals.next() => {
            tracing::info!("SIG{name}");
            Ok(ExitCode::SUCCESS)
        }
        () = orphaned(parent) => {
            tracing::info!("whoever started this has ended");
            Ok(ExitCode::SUCCESS)
        }
    };
    link.close().await;
    ended
}

/// Returns when whoever started us is gone: its end of our input may have been inherited by others.
async fn orphaned(parent: Option<Pid>) {
    let mut looks = tokio::time::interval(PARENT);
    while rustix::process::getppid() == parent {
        looks.tick().await;
    }
}
