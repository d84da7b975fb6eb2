//! The signals that stop a process.

use anyhow::Context;
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal, SignalKind, signal};

pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    pub fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal and returns its name, as `kill` knows it.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "INT",
            _ = self.terminate.recv() => "TERM",
            _ = self.hang_up.recv() => "HUP",
        }
    }
}

/// A signal ended the command.
#[derive(Debug)]
pub struct Interrupted(pub &'static str);

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "interrupted by SIG{}", self.0)
    }
}

impl std::error::Error for Interrupted {}

/// Runs the work until it ends or a signal arrives. A signal drops the work, which cleans up after
/// itself.
pub async fn interruptible<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let mut signals = Signals::listen()?;
    tokio::select! {
        done = work => done,
        name = signals.next() => Err(Interrupted(name).into()),
    }
}

/// Uses the shell's `kill`: the standard library cannot send signals, and small systems have no
/// other.
pub async fn send(name: &str, child: &Child) -> anyhow::Result<()> {
    let Some(pid) = child.id() else { return Ok(()) };
    let script = format!("kill -{name} {pid}");
    Command::new("sh").arg("-c").arg(script).status().await.context("cannot run sh")?;
    Ok(())
}
