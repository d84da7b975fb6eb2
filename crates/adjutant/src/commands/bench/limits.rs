//! The baselines that pgbench measures: what plain PostgreSQL does on this machine.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use adjutant_store::Store;
use anyhow::{Context, ensure};
use tokio::process::Command;

use crate::private_postgres::PrivatePostgres;

const CLIENTS: u32 = 8;
const BATCH: f64 = 50.0;

/// The path of pgbench: beside the server program, else on the PATH.
pub fn pgbench(postgres: &PrivatePostgres) -> anyhow::Result<PathBuf> {
    let on_path = || {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path)
            .map(|dir| dir.join("pgbench"))
            .find(|program| program.is_file())
    };
    postgres.program("pgbench").or_else(on_path).context(
        "cannot find pgbench, which measures the baselines; install it. Debian, Ubuntu: apt-get install postgresql; macOS: brew install postgresql@17",
    )
}

/// Tasks per second, one at a time: a claim with SKIP LOCKED and an update that finishes the task,
/// in two transactions, without a cap.
pub async fn naive(pgbench: &Path, store: &Store, url: &str, seconds: u64) -> anyhow::Result<f64> {
    store.fill_yardstick(i64::try_from(seconds * 30_000)?).await?;
    run(pgbench, url, include_str!("naive.sql"), seconds, &clients()).await
}

/// Like [`naive`], with 50 tasks per transaction.
pub async fn batch(pgbench: &Path, store: &Store, url: &str, seconds: u64) -> anyhow::Result<f64> {
    store.fill_yardstick(i64::try_from(seconds * 100_000)?).await?;
    Ok(BATCH * run(pgbench, url, include_str!("batch.sql"), seconds, &clients()).await?)
}

fn clients() -> [String; 1] {
    [format!("--client={CLIENTS}")]
}

/// Single committed inserts into a table with the columns of a task.
#[derive(Debug, Clone, Default)]
pub struct Inserts {
    pub per_s: f64,
    pub times: Vec<Duration>,
}

/// Inserts with concurrent clients. The table `yardstick` must exist.
pub async fn insert(
    pgbench: &Path,
    url: &str,
    clients: usize,
    seconds: u64,
) -> anyhow::Result<Inserts> {
    let logs = tempfile::tempdir()?;
    let log = format!("--log-prefix={}", logs.path().join("pgbench").display());
    let options = [format!("--client={clients}"), "--log".to_owned(), log];
    let per_s = run(pgbench, url, include_str!("insert.sql"), seconds, &options).await?;
    let mut times = Vec::new();
    for log in std::fs::read_dir(logs.path())? {
        let log = std::fs::read_to_string(log?.path())?;
        // The fields of a line: client, transaction number, microseconds, more.
        let micros = log.lines().filter_map(|line| line.split(' ').nth(2)?.parse().ok());
        times.extend(micros.map(Duration::from_micros));
    }
    ensure!(!times.is_empty(), "the log of pgbench has no times of inserts");
    Ok(Inserts { per_s, times })
}

/// Runs a script with pgbench and returns the transactions per second.
async fn run(
    pgbench: &Path,
    url: &str,
    script: &str,
    seconds: u64,
    options: &[String],
) -> anyhow::Result<f64> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), script)?;
    let output = Command::new(pgbench)
        .args(["--no-vacuum", "--protocol=prepared", "--jobs=2"])
        .arg(format!("--time={seconds}"))
        .args(options)
        .arg("--file")
        .arg(file.path())
        .arg(url)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .context("cannot run pgbench")?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "pgbench failed: {}", String::from_utf8_lossy(&output.stderr));
    let rate = stdout
        .lines()
        .find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
    rate.with_context(|| format!("the output of pgbench has no rate: {stdout}"))
}
