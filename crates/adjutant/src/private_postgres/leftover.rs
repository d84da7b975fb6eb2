//! What an earlier run left: a pid file, and maybe a server that still runs.
//!
//! `postmaster.pid` is PostgreSQL's own guard against two servers on one cluster, so it is removed only when its pid is
//! seen to be some other program's. One whose pid is dead is left to PostgreSQL, which also looks whether an old backend
//! still has the shared memory.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// A server whose parent was killed is told so by its guard; this long it may take without being told again.
const PATIENCE: Duration = Duration::from_secs(2);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);

#[derive(Debug, PartialEq, Eq)]
enum Process {
    Gone,
    /// The server of this cluster.
    Ours,
    /// Not the server, but backends of it are still at work; they end by themselves when they notice.
    Orphans,
    Another,
    /// A postgres, and nothing tells of which cluster.
    Unclear,
}

/// Returns when no server runs on the cluster and its pid file is in nobody's way.
pub async fn clear(cluster: &Path) -> anyhow::Result<()> {
    let file = cluster.join("postmaster.pid");
    let began = Instant::now();
    let (mut said, mut told) = (false, false);
    loop {
        let Some(pid) = read_pid(&file) else { return Ok(()) };
        match look_at(pid, cluster) {
            Process::Gone => return Ok(()),
            Process::Another => {
                eprintln!("removing {}: its process {pid} is another program now", file.display());
                return fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()));
            }
            Process::Unclear => bail!(
                "process {pid}, named in {}, is a PostgreSQL, and it cannot be seen which directory it serves. Stop it; \
                 or, when it serves another directory, remove that file.",
                file.display()
            ),
            Process::Ours | Process::Orphans => {}
        }
        if !said {
            said = true;
            eprintln!("waiting until the PostgreSQL of an earlier run has stopped (process {pid})");
        }
        if began.elapsed() > LONGEST_WAIT {
            bail!(
                "a PostgreSQL of an earlier run still runs on it (process {pid}) and has not stopped within {} seconds. \
                 Look into postgres.log there, stop that process, and start again.",
                LONGEST_WAIT.as_secs()
            );
        }
        if !told && began.elapsed() > PATIENCE && look_at(pid, cluster) == Process::Ours {
            told = true;
            eprintln!("stopping the PostgreSQL of an earlier run (process {pid})");
            interrupt(pid)?;
        }
        tokio::time::sleep(POLL).await;
    }
}

fn read_pid(file: &Path) -> Option<u32> {
    fs::read_to_string(file).ok()?.lines().next()?.trim().parse().ok()
}

/// SIGINT is PostgreSQL's fast shutdown. The shell's own `kill`: small systems have no other.
fn interrupt(pid: u32) -> anyhow::Result<()> {
    Command::new("sh")
        .args(["-c", r#"kill -INT "$1""#, "interrupt"])
        .arg(pid.to_string())
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .context("cannot run sh")?;
    Ok(())
}

fn look_at(pid: u32, cluster: &Path) -> Process {
    if Path::new("/proc/self/cwd").exists() { look_in_proc(pid, cluster) } else { look_with_ps(pid, cluster) }
}

/// A server works inside its cluster; who may not read that sees the command line still.
fn look_in_proc(pid: u32, cluster: &Path) -> Process {
    let process = Path::new("/proc").join(pid.to_string());
    if !process.exists() {
        return Process::Gone;
    }
    if works_in(&process, cluster) || command_line_names(&process, cluster) {
        return Process::Ours;
    }
    let readable =
        fs::read_link(process.join("cwd")).err().is_none_or(|e| e.kind() != ErrorKind::PermissionDenied);
    if is_postgres(&process) && !readable {
        return Process::Unclear;
    }
    // A zombie comes to here as well: its directory is gone, but PostgreSQL would take it for a live server.
    let mut all = fs::read_dir("/proc").into_iter().flatten().flatten();
    if all.any(|entry| works_in(&entry.path(), cluster)) { Process::Orphans } else { Process::Another }
}

fn works_in(process: &Path, cluster: &Path) -> bool {
    fs::read_link(process.join("cwd")).is_ok_and(|dir| dir == cluster) && is_postgres(process)
}

fn is_postgres(process: &Path) -> bool {
    fs::read_to_string(process.join("comm"))
        .is_ok_and(|name| ["postgres", "postmaster"].contains(&name.trim()))
}

/// Tells a server in the moment before it works in its cluster.
fn command_line_names(process: &Path, cluster: &Path) -> bool {
    let line = fs::read(process.join("cmdline")).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0);
    let program = words.next().unwrap_or_default();
    program.ends_with(b"postgres") && words.any(|word| word == cluster.as_os_str().as_encoded_bytes())
}

fn look_with_ps(pid: u32, cluster: &Path) -> Process {
    let output = Command::new("ps")
        .args(["-ww", "-o", "command=", "-p"])
        .arg(pid.to_string())
        .stdin(Stdio::null())
        .output()
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let Ok(line) = output else { return Process::Unclear };
    let program = line.split_whitespace().next().unwrap_or_default();
    if program.is_empty() {
        Process::Gone
    } else if !line.contains("postgres") {
        Process::Another
    } else if line.contains(&*cluster.to_string_lossy()) {
        Process::Ours
    } else {
        Process::Unclear
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_no_server_in_either_view() {
        let cluster = Path::new("/nowhere/postgres");
        let pid = std::process::id();
        assert_eq!(look_at(pid, cluster), Process::Another);
        if Command::new("ps").output().is_ok() {
            // The name of the test's program may have "postgres" in it, and then it cannot be told.
            assert_ne!(look_with_ps(pid, cluster), Process::Ours);
        }
    }
}
