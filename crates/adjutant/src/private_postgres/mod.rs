//! A private PostgreSQL: found or downloaded, started without set-up, and stopped with this
//! process.
//!
//! It listens only on a unix socket in a directory that other users cannot enter. A guard (see
//! [`guard`]) stops it when this process ends, also after `kill -9`. Leftovers of an earlier run
//! are repaired without loss, or refused with a message that says what to do:
//!
//! | found | action |
//! |---|---|
//! | another process on the directory | refused, with its pid |
//! | a server whose parent was killed | waited for, then stopped |
//! | a pid file of a dead process, or of another program | ignored or removed |
//! | an unfinished cluster (`postgres.new*`) | created again |
//! | `postgres/` is no cluster, or its version is not installed | refused, unchanged |

mod cluster;
mod data_dir;
mod find;
mod guard;
mod leftover;
mod log;
mod npm;
mod run_as;
mod settings;

use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::Context;

use self::data_dir::DataDir;
use self::find::Server;
use self::guard::{Guard, GuardedProgram, Remove};
use self::log::Log;
use self::run_as::RunAs;

use self::data_dir::is_in_use;
pub use self::data_dir::{InUse, published_url};

use crate::output::note;

pub const DATABASE: &str = "adjutant";
const USER: &str = "adjutant";

const POLL: Duration = Duration::from_millis(10);
const START_NOTICE_INTERVAL: Duration = Duration::from_secs(10);

/// Where the data is stored.
#[derive(Debug, Clone)]
pub enum DataLocation {
    /// In this directory; it survives a power failure.
    Directory(PathBuf),
    /// In a temporary directory that is removed at the end; not durable, but fast.
    Temporary,
    /// In a temporary directory, but as durable as in a real one, for benchmarks.
    TemporaryDurable,
}

/// A running server. Dropping it stops the server; [`PrivatePostgres::stop`] also waits for
/// its end.
pub struct PrivatePostgres {
    guard: Guard,
    data: DataDir,
    server: Server,
    log: Log,
    ended: bool,
}

impl PrivatePostgres {
    /// Resolves when the server accepts connections.
    pub async fn start(location: DataLocation) -> anyhow::Result<Self> {
        let context = match &location {
            DataLocation::Directory(path) => {
                format!("cannot use the data directory {}", path.display())
            }
            DataLocation::Temporary | DataLocation::TemporaryDurable => {
                "cannot start a temporary PostgreSQL".into()
            }
        };
        Self::start_in(location).await.context(context)
    }

    async fn start_in(location: DataLocation) -> anyhow::Result<Self> {
        let run_as = RunAs::choose()?;
        let data = DataDir::open(location, &run_as).await?;
        let version = data.version()?;
        let server = find::server(&run_as, version).await?;
        run_as.check_access(data.socket_dir(), data.advice())?;
        run_as.check_access(
            &server.program("postgres"),
            "Install PostgreSQL for all users, or run adjutant as a user other than root.",
        )?;
        if version.is_none() {
            cluster::create(&run_as, &server, &data).await?;
        } else {
            leftover::wait_until_free(&data.cluster()).await?;
            run_as.give_ownership(&data.cluster())?;
            run_as.check_access(&data.cluster(), data.advice())?;
        }
        data.remove_old_socket();
        let log =
            Log::open(data.log()).map_err(|error| data_dir::write_error(&error, &data.log()))?;
        let old_pid_file = fs::read(pid_file(&data)).ok();
        let guard = serve(&run_as, &server, &data, &log)?;
        let mut postgres = Self { guard, data, server, log, ended: false };
        postgres.wait_until_ready(old_pid_file.as_deref()).await?;
        Ok(postgres)
    }

    /// A URL for sqlx and libpq. It sets everything that an environment variable could change.
    pub fn url(&self, database: &str) -> String {
        socket_url(self.data.socket_dir().as_os_str().as_bytes(), database)
    }

    pub fn data_dir(&self) -> &Path {
        self.data.root()
    }

    /// Publishes the URL of the HTTP server to other processes that use the same directory.
    pub fn publish_url(&self, url: &str) -> anyhow::Result<()> {
        self.data.publish_url(url)
    }

    /// A program of the server's installation, if it exists.
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        Some(self.server.program(name)).filter(|program| program.is_file())
    }

    pub fn server_version(&self) -> &str {
        &self.server.version
    }

    /// The parent of all processes of the server.
    pub fn pid(&self) -> anyhow::Result<u32> {
        let file = fs::read_to_string(pid_file(&self.data))
            .context("cannot read the server's pid file")?;
        file.lines()
            .next()
            .and_then(|pid| pid.trim().parse().ok())
            .context("the server's pid file has no pid")
    }

    /// Resolves if the server ends by itself, with the end of its log. Cancel safe.
    pub async fn stopped(&mut self) -> anyhow::Error {
        match self.guard.ended().await {
            Ok(status) => {
                self.ended = true;
                self.log.error(
                    &format!("PostgreSQL stopped unexpectedly ({status})."),
                    self.data.root(),
                )
            }
            Err(error) => error,
        }
    }

    /// Stops the server with a fast shutdown, and resolves when it has ended.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        self.guard.stop().await?;
        self.ended = true;
        if self.data.is_kept() {
            // Needed only if the guard was killed.
            leftover::wait_until_free(&self.data.cluster()).await?;
        }
        Ok(())
    }

    async fn wait_until_ready(&mut self, old_pid_file: Option<&[u8]>) -> anyhow::Result<()> {
        let mut announced = Instant::now();
        loop {
            tokio::select! {
                status = self.guard.ended() => return Err(self.start_error(status?)),
                () = tokio::time::sleep(POLL) => {}
            }
            let now = fs::read(pid_file(&self.data)).ok();
            if now.as_deref() != old_pid_file && now.as_deref().is_some_and(is_ready) {
                return Ok(());
            }
            if announced.elapsed() > START_NOTICE_INTERVAL {
                announced = Instant::now();
                note!("PostgreSQL is still starting; see {}", self.data.log().display());
            }
        }
    }

    fn start_error(&mut self, status: ExitStatus) -> anyhow::Error {
        self.ended = true;
        let what = format!(
            "PostgreSQL {} in {} failed to start ({status}).",
            self.server.version,
            self.server.bin.display()
        );
        self.log.error(&what, self.data.root())
    }
}

impl Drop for PrivatePostgres {
    fn drop(&mut self) {
        // The server may still be writing; the guard then removes the directory.
        if !self.ended
            && let Some(temporary) = self.data.temporary.take()
        {
            let _ = temporary.keep();
        }
    }
}

fn serve(run_as: &RunAs, server: &Server, data: &DataDir, log: &Log) -> anyhow::Result<Guard> {
    let mut arguments = vec!["-D".into(), data.cluster().into()];
    arguments.extend(settings::arguments(data));
    let temporary = data.temporary.as_ref().map(|temporary| temporary.path().to_owned());
    let program = GuardedProgram {
        path: server.program("postgres"),
        arguments,
        // Fast shutdown, or immediate shutdown if no data has to survive.
        signal: if data.is_kept() { "INT" } else { "QUIT" },
        input: Path::new("/dev/null"),
        remove: temporary.as_deref().map_or(Remove::Nothing, Remove::Always),
    };
    let (out, err) = (log.handle()?, log.handle()?);
    Guard::start(run_as, &program, out, err)
}

fn pid_file(data: &DataDir) -> PathBuf {
    data.cluster().join("postmaster.pid")
}

/// The eighth line is the server's state; `pg_ctl` reads it too.
fn is_ready(pid_file: &[u8]) -> bool {
    pid_file.split(|byte| *byte == b'\n').nth(7).is_some_and(|state| state.trim_ascii() == b"ready")
}

fn percent_encode(bytes: &[u8]) -> String {
    let mut encoded = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            encoded.push(char::from(*byte));
        } else {
            // Writing to a String does not fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// The URL of the HTTP server that another process runs on a data directory.
pub fn url_on(dir: &Path) -> anyhow::Result<String> {
    published_url(dir).filter(|_| is_in_use(dir)).with_context(|| {
        format!("no `adjutant up` runs on {}; start it, or set --url", dir.display())
    })
}

/// The database URL of the server that another process runs on a data directory.
pub fn running_url(dir: Option<PathBuf>) -> anyhow::Result<String> {
    let dir = dir.map_or_else(default_data_dir, Ok)?;
    let pid_file = fs::read(dir.join("postgres/postmaster.pid")).unwrap_or_default();
    let socket_dir = pid_file.split(|byte| *byte == b'\n').nth(4).filter(|_| is_ready(&pid_file));
    let socket_dir = socket_dir.with_context(|| {
        format!("no `adjutant up` runs on {}; start it, or set --database-url", dir.display())
    })?;
    Ok(socket_url(socket_dir.trim_ascii(), DATABASE))
}

fn socket_url(socket_dir: &[u8], database: &str) -> String {
    let (host, database) = (percent_encode(socket_dir), percent_encode(database.as_bytes()));
    format!("postgres://{USER}@localhost:5432/{database}?host={host}&sslmode=disable")
}

/// `$XDG_DATA_HOME/adjutant`, else `~/.local/share/adjutant`.
pub fn default_data_dir() -> anyhow::Result<PathBuf> {
    let absolute =
        |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(data) = absolute("XDG_DATA_HOME") {
        return Ok(data.join("adjutant"));
    }
    let home = absolute("HOME")
        .context("neither XDG_DATA_HOME nor HOME is set; choose a directory with --data-dir")?;
    Ok(home.join(".local/share/adjutant"))
}
