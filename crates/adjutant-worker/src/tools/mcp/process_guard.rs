//! Ends the processes of an MCP server when the guard is dropped, even by the death of this
//! process.
//!
//! Servers should exit when their stdin is closed, and most do. A small shell process kills the
//! others: it waits on a pipe whose write end only this process holds, and which the kernel closes
//! however this process ends.

use std::process::Stdio;

use tokio::process::{ChildStdin, Command};

/// Signal 0 only checks whether the processes have exited by themselves.
const SCRIPT: &str = "read -r _; for signal in 0 TERM KILL; do sleep 1; kill -s $signal -- -$0 2>/dev/null || exit 0; done";

pub(super) struct ProcessGuard {
    _pipe: Option<ChildStdin>,
}

impl ProcessGuard {
    /// Guards all processes of the process group.
    pub(super) fn new(group: u32) -> std::io::Result<Self> {
        let mut watcher = Command::new("sh")
            .args(["-c", SCRIPT, &group.to_string()])
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A signal to the process group of the worker must not end it.
            .process_group(0)
            .spawn()?;
        Ok(Self { _pipe: watcher.stdin.take() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_that_ignores_the_end_of_its_input_ends_with_its_guard() {
        let mut stubborn = Command::new("sh")
            .args(["-c", "trap '' TERM HUP INT; while :; do sleep 0.1; done"])
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let guard = ProcessGuard::new(stubborn.id().unwrap()).unwrap();
        assert!(stubborn.try_wait().unwrap().is_none());
        drop(guard);
        let status = stubborn.wait().await.unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    }
}
