//! A hold on a server's processes: when it is let go, they end, even if it is let go by our death.
//!
//! Servers are to end when their input does, and most do. A small shell process sees to the others: it holds the read
//! end of a pipe whose write end only we have, and which the kernel closes whatever ends us.

use std::process::Stdio;

use tokio::process::{ChildStdin, Command};

/// First it only looks whether they have ended by themselves.
const SCRIPT: &str =
    "read -r _; for signal in 0 TERM KILL; do sleep 2; kill -s $signal -- -$0 2>/dev/null || exit 0; done";

pub(super) struct Hold {
    _pipe: Option<ChildStdin>,
}

impl Hold {
    /// On all processes of the group.
    pub(super) fn on(group: u32) -> std::io::Result<Self> {
        let mut holder = Command::new("sh")
            .args(["-c", SCRIPT, &group.to_string()])
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // What ends us by a signal to our group must not end it.
            .process_group(0)
            .spawn()?;
        Ok(Self { _pipe: holder.stdin.take() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_that_ignores_the_end_of_its_input_ends_with_its_holder() {
        let mut stubborn = Command::new("sh")
            .args(["-c", "trap '' TERM HUP INT; while :; do sleep 0.1; done"])
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let hold = Hold::on(stubborn.id().unwrap()).unwrap();
        assert!(stubborn.try_wait().unwrap().is_none());
        drop(hold);
        let status = stubborn.wait().await.unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    }
}
