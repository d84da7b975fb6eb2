//! `adjutant postgres` as a process, and a PostgreSQL that one test can stop and start again.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::Context;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Row};
use tempfile::TempDir;

use crate::support::process::Process;
use crate::support::world::World;

/// The command `adjutant postgres`, without the environment's settings of a server and of a user.
pub fn postgres() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_adjutant"));
    command
        .arg("postgres")
        .env_remove("ADJUTANT_POSTGRES_BIN")
        .env_remove("ADJUTANT_POSTGRES_RUN_AS");
    command
}

pub fn postgres_in(dir: &Path) -> Command {
    let mut command = postgres();
    command.arg("--data-dir").arg(dir);
    command
}

pub fn start_postgres_in(dir: &Path) -> anyhow::Result<Process> {
    Process::start(&mut postgres_in(dir))
}

/// A PostgreSQL for one test, which may stop it.
pub struct PostgresServer {
    dir: TempDir,
    running: Option<Process>,
    environment: Vec<(&'static str, String)>,
}

impl PostgresServer {
    pub fn start() -> Self {
        Self::start_with(Vec::new())
    }

    /// With additional environment variables of the server.
    pub fn start_with(environment: Vec<(&'static str, String)>) -> Self {
        let mut server = Self { dir: TempDir::new().unwrap(), running: None, environment };
        server.restart();
        server
    }

    pub async fn world(&self) -> World {
        let world = World::at(self.running.as_ref().unwrap().database_url()).await;
        // These tests do not simulate a crash of the machine, and fsync is slow.
        for statement in ["alter system set fsync = off", "select pg_reload_conf()"] {
            sqlx::query(statement).execute(&world.sql).await.unwrap();
        }
        world
    }

    /// Stops it, which disconnects all clients.
    pub fn stop(&mut self) {
        self.running.take().unwrap().stop().unwrap();
    }

    /// Starts it with the same data and URL.
    pub fn restart(&mut self) {
        let mut command = postgres_in(self.dir.path());
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        self.running = Some(Process::start(&mut command).unwrap());
    }
}

/// An unrelated process, killed at the end of the test.
pub struct Bystander(pub Child);

impl Bystander {
    pub fn start() -> anyhow::Result<Self> {
        Ok(Self(Command::new("sleep").arg("600").spawn()?))
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The first column of the first row, as text.
pub fn query(url: &str, sql: &str) -> anyhow::Result<Option<String>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut connection = PgConnection::connect(url).await?;
        let row = sqlx::query(AssertSqlSafe(sql)).fetch_optional(&mut connection).await?;
        connection.close().await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?)
    })
}

/// The pid of the server on a data directory.
pub fn server_pid(dir: &Path) -> anyhow::Result<u32> {
    let file = fs::read_to_string(dir.join("postgres/postmaster.pid"))?;
    Ok(file.lines().next().context("an empty pid file")?.trim().parse()?)
}

pub fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// The pid of a process that has just exited.
pub fn dead_pid() -> anyhow::Result<u32> {
    let mut child = Command::new("true").spawn()?;
    child.wait()?;
    Ok(child.id())
}

pub fn touch(path: &Path) -> anyhow::Result<()> {
    File::create(path)?;
    Ok(())
}
