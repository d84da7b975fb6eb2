//! Handles what an earlier run left: a pid file, and possibly a running server.
//!
//! `postmaster.pid` is PostgreSQL's own protection against two servers on one cluster. It is
//! removed only if its pid belongs to another program. If the process is dead, PostgreSQL handles
//! the file itself and also checks for old backends that still use the shared memory.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::output::note;

/// How long a server may take to stop by its guard, before it gets a signal.
const GUARD_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_WAIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);

#[derive(Debug, PartialEq, Eq)]
enum Process {
    Gone,
    /// The server of this cluster.
    Server,
    /// The server has ended, but some of its backends still run. They end when they notice.
    Orphans,
    OtherProgram,
    /// A PostgreSQL server of an unknown cluster.
    Unknown,
}

/// Returns when no server runs on the cluster and its pid file does not prevent a start.
pub async fn wait_until_free(cluster: &Path) -> anyhow::Result<()> {
    let file = cluster.join("postmaster.pid");
    let started = Instant::now();
    let (mut announced, mut signalled) = (false, false);
    loop {
        let Some(pid) = read_pid(&file) else { return Ok(()) };
        match identify(pid, cluster) {
            Process::Gone => return Ok(()),
            Process::OtherProgram => {
                note!("removing {}: process {pid} is now another program", file.display());
                return fs::remove_file(&file)
                    .with_context(|| format!("cannot remove {}", file.display()));
            }
            Process::Unknown => bail!(
                "process {pid}, named in {}, is a PostgreSQL server of an unknown directory. Stop it, or remove \
                 that file if the server uses another directory.",
                file.display()
            ),
            Process::Server | Process::Orphans => {}
        }
        if !announced {
            announced = true;
            note!("waiting for the PostgreSQL of an earlier run to stop (process {pid})");
        }
        if started.elapsed() > MAX_WAIT {
            bail!(
                "the PostgreSQL of an earlier run (process {pid}) has not stopped within {} seconds. See \
                 postgres.log there, stop that process, and start again.",
                MAX_WAIT.as_secs()
            );
        }
        if !signalled
            && started.elapsed() > GUARD_TIMEOUT
            && identify(pid, cluster) == Process::Server
        {
            signalled = true;
            note!("stopping the PostgreSQL of an earlier run (process {pid})");
            send_interrupt(pid)?;
        }
        tokio::time::sleep(POLL).await;
    }
}

fn read_pid(file: &Path) -> Option<u32> {
    fs::read_to_string(file).ok()?.lines().next()?.trim().parse().ok()
}

/// SIGINT is PostgreSQL's fast shutdown. Uses the shell's `kill`, because small systems have no
/// other.
fn send_interrupt(pid: u32) -> anyhow::Result<()> {
    Command::new("sh")
        .args(["-c", r#"kill -INT "$1""#, "interrupt"])
        .arg(pid.to_string())
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .context("cannot run sh")?;
    Ok(())
}

fn identify(pid: u32, cluster: &Path) -> Process {
    if Path::new("/proc/self/cwd").exists() {
        identify_in_proc(pid, cluster)
    } else {
        identify_with_ps(pid, cluster)
    }
}

/// A server's working directory is its cluster. Without permission to read it, the command line is
/// checked.
fn identify_in_proc(pid: u32, cluster: &Path) -> Process {
    let process = Path::new("/proc").join(pid.to_string());
    if !process.exists() {
        return Process::Gone;
    }
    if works_in(&process, cluster) || command_line_names(&process, cluster) {
        return Process::Server;
    }
    let readable = fs::read_link(process.join("cwd"))
        .err()
        .is_none_or(|e| e.kind() != ErrorKind::PermissionDenied);
    if is_postgres(&process) && !readable {
        return Process::Unknown;
    }
    // Zombies are also found here: they have no working directory, but PostgreSQL would treat them
    // as alive.
    let mut all = fs::read_dir("/proc").into_iter().flatten().flatten();
    if all.any(|entry| works_in(&entry.path(), cluster)) {
        Process::Orphans
    } else {
        Process::OtherProgram
    }
}

fn works_in(process: &Path, cluster: &Path) -> bool {
    fs::read_link(process.join("cwd")).is_ok_and(|dir| dir == cluster) && is_postgres(process)
}

fn is_postgres(process: &Path) -> bool {
    fs::read_to_string(process.join("comm"))
        .is_ok_and(|name| ["postgres", "postmaster"].contains(&name.trim()))
}

/// Recognises a server that has just started and has not changed its directory yet.
fn command_line_names(process: &Path, cluster: &Path) -> bool {
    let line = fs::read(process.join("cmdline")).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0);
    let program = words.next().unwrap_or_default();
    program.ends_with(b"postgres")
        && words.any(|word| word == cluster.as_os_str().as_encoded_bytes())
}

fn identify_with_ps(pid: u32, cluster: &Path) -> Process {
    let output = Command::new("ps")
        .args(["-ww", "-o", "command=", "-p"])
        .arg(pid.to_string())
        .stdin(Stdio::null())
        .output()
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let Ok(line) = output else { return Process::Unknown };
    let program = line.split_whitespace().next().unwrap_or_default();
    if program.is_empty() {
        Process::Gone
    } else if !line.contains("postgres") {
        Process::OtherProgram
    } else if line.contains(&*cluster.to_string_lossy()) {
        Process::Server
    } else {
        Process::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_not_taken_for_a_server() {
        let cluster = Path::new("/nowhere/postgres");
        let pid = std::process::id();
        assert_eq!(identify(pid, cluster), Process::OtherProgram);
        if Command::new("ps").output().is_ok() {
            // The name of the test program may contain "postgres", which makes the result unclear.
            assert_ne!(identify_with_ps(pid, cluster), Process::Server);
        }
    }
}
