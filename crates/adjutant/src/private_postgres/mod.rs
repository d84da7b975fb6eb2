//! A PostgreSQL of our own: found or fetched, started without set-up, and gone when we are.
//!
//! It listens on a unix socket in a closed directory and nowhere else. It runs under a guard (see [`guard`]) that stops
//! it when this process ends, also by `kill -9`. Whatever an earlier run left behind is either put right without loss or
//! refused with a message that says what to do:
//!
//! | found | done |
//! |---|---|
//! | another process on the directory | refused, with its pid |
//! | a server whose parent was killed | waited for, then told to stop |
//! | a pid file of a dead process, or of another program | not in the way |
//! | a cluster that was not finished (`postgres.new*`) | made anew |
//! | a `postgres/` that is no cluster, or of a version we have no server for | refused, untouched |

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
use self::guard::{Guard, Guarded, Remove};
use self::log::Log;
use self::run_as::RunAs;

pub use self::data_dir::{InUse, url_of};

pub const DATABASE: &str = "adjutant";
const USER: &str = "adjutant";

const POLL: Duration = Duration::from_millis(10);
const SAY_STILL_STARTING: Duration = Duration::from_secs(10);

/// Where the data is.
#[derive(Debug, Clone)]
pub enum Place {
    /// In this directory, safe against a power cut.
    Kept(PathBuf),
    /// In a temporary directory that is removed at the end; fast rather than safe.
    Throwaway,
    /// In a temporary directory too, but as safe as a kept one: what a measurement needs.
    SafeThrowaway,
}

/// A running server; dropping it tells the server to stop, [`PrivatePostgres::stop`] also waits until it has.
pub struct PrivatePostgres {
    guard: Guard,
    data: DataDir,
    server: Server,
    log: Log,
    ended: bool,
}

impl PrivatePostgres {
    /// Resolves when the server takes connections.
    pub async fn start(place: Place) -> anyhow::Result<Self> {
        let whose = match &place {
            Place::Kept(path) => format!("cannot use the data directory {}", path.display()),
            Place::Throwaway | Place::SafeThrowaway => "cannot start a throwaway PostgreSQL".into(),
        };
        Self::start_in(place).await.context(whose)
    }

    async fn start_in(place: Place) -> anyhow::Result<Self> {
        let run_as = RunAs::choose()?;
        let data = DataDir::open(place, &run_as).await?;
        let version = data.version()?;
        let server = find::server(&run_as, version).await?;
        run_as.check_reach(data.socket_dir(), data.what_to_do())?;
        run_as.check_reach(
            &server.program("postgres"),
            "Install PostgreSQL for all users, or run adjutant as an ordinary user.",
        )?;
        if version.is_none() {
            cluster::make(&run_as, &server, &data).await?;
        } else {
            leftover::clear(&data.cluster()).await?;
            run_as.give(&data.cluster())?;
            run_as.check_reach(&data.cluster(), data.what_to_do())?;
        }
        data.remove_old_socket();
        let log = Log::open(data.log()).map_err(|error| data_dir::explain(&error, &data.log()))?;
        let old_pid_file = fs::read(pid_file(&data)).ok();
        let guard = serve(&run_as, &server, &data, &log)?;
        let mut postgres = Self { guard, data, server, log, ended: false };
        postgres.wait_until_ready(old_pid_file.as_deref()).await?;
        Ok(postgres)
    }

    /// A URL that sqlx and libpq take; all that an environment variable could change is in it.
    pub fn url(&self, database: &str) -> String {
        socket_url(self.data.socket_dir().as_os_str().as_bytes(), database)
    }

    pub fn data_dir(&self) -> &Path {
        self.data.root()
    }

    /// Lets others who are given the same directory find the server that uses this database.
    pub fn tell_url(&self, url: &str) -> anyhow::Result<()> {
        self.data.tell_url(url)
    }

    /// A program that came with the server, if it did.
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        Some(self.server.program(name)).filter(|program| program.is_file())
    }

    pub fn server_version(&self) -> &str {
        &self.server.version
    }

    /// The process that all others of the server are children of.
    pub fn pid(&self) -> anyhow::Result<u32> {
        let file = fs::read_to_string(pid_file(&self.data)).context("cannot read the server's pid file")?;
        file.lines().next().and_then(|pid| pid.trim().parse().ok()).context("its pid file has no pid")
    }

    /// Resolves only when the server ends by itself, with the reason as far as its log has it; cancel safe.
    pub async fn stopped(&mut self) -> anyhow::Error {
        match self.guard.ended().await {
            Ok(status) => {
                self.ended = true;
                self.log.explain(&format!("PostgreSQL stopped by itself ({status})."), self.data.root())
            }
            Err(error) => error,
        }
    }

    /// Stops the server: its clients are sent away, what they committed is written. Resolves when it has ended.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        self.guard.end().await?;
        self.ended = true;
        if self.data.is_kept() {
            // Only when somebody killed the guard is there anything to do.
            leftover::clear(&self.data.cluster()).await?;
        }
        Ok(())
    }

    async fn wait_until_ready(&mut self, old_pid_file: Option<&[u8]>) -> anyhow::Result<()> {
        let mut said = Instant::now();
        loop {
            tokio::select! {
                status = self.guard.ended() => return Err(self.died_at_start(status?)),
                () = tokio::time::sleep(POLL) => {}
            }
            let now = fs::read(pid_file(&self.data)).ok();
            if now.as_deref() != old_pid_file && now.as_deref().is_some_and(says_ready) {
                return Ok(());
            }
            if said.elapsed() > SAY_STILL_STARTING {
                said = Instant::now();
                eprintln!("PostgreSQL is still starting; {} says why", self.data.log().display());
            }
        }
    }

    fn died_at_start(&mut self, status: ExitStatus) -> anyhow::Error {
        self.ended = true;
        let what = format!(
            "PostgreSQL {} in {} ended while it was starting ({status}).",
            self.server.version,
            self.server.bin.display()
        );
        self.log.explain(&what, self.data.root())
    }
}

impl Drop for PrivatePostgres {
    fn drop(&mut self) {
        // The server may be at work in it for a moment still: then the guard removes it afterwards.
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
    let guarded = Guarded {
        program: server.program("postgres"),
        arguments,
        // The fast shutdown, or the immediate one where nothing is to be saved.
        signal: if data.is_kept() { "INT" } else { "QUIT" },
        input: Path::new("/dev/null"),
        remove: temporary.as_deref().map_or(Remove::Nothing, Remove::Always),
    };
    let (out, err) = (log.output()?, log.output()?);
    Guard::start(run_as, &guarded, out, err)
}

fn pid_file(data: &DataDir) -> PathBuf {
    data.cluster().join("postmaster.pid")
}

/// The eighth line is the server's state; `pg_ctl` waits for it in the same way.
fn says_ready(pid_file: &[u8]) -> bool {
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

/// The URL of the server that another process runs on a data directory, by default on the usual one.
pub fn running_url(dir: Option<PathBuf>) -> anyhow::Result<String> {
    let dir = dir.map_or_else(default_data_dir, Ok)?;
    let pid_file = fs::read(dir.join("postgres/postmaster.pid")).unwrap_or_default();
    let socket_dir = pid_file.split(|byte| *byte == b'\n').nth(4).filter(|_| says_ready(&pid_file));
    let socket_dir = socket_dir.with_context(|| {
        format!("no `adjutant up` runs on {}: start it, or give --database-url", dir.display())
    })?;
    Ok(socket_url(socket_dir.trim_ascii(), DATABASE))
}

fn socket_url(socket_dir: &[u8], database: &str) -> String {
    let (host, database) = (percent_encode(socket_dir), percent_encode(database.as_bytes()));
    format!("postgres://{USER}@localhost:5432/{database}?host={host}&sslmode=disable")
}

/// `$XDG_DATA_HOME/adjutant`, else `~/.local/share/adjutant`.
pub fn default_data_dir() -> anyhow::Result<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(data) = absolute("XDG_DATA_HOME") {
        return Ok(data.join("adjutant"));
    }
    let home = absolute("HOME").context(
        "neither XDG_DATA_HOME nor HOME is set, so there is no usual place for data: give --data-dir",
    )?;
    Ok(home.join(".local/share/adjutant"))
}
