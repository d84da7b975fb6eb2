//! The servers that this user runs on this machine, so that other commands find them: a small file
//! for each. Its process holds a lock on it, so a file without a lock is left over, however its
//! process ended.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::config::Config;

/// The folder of the files; an empty value turns them off.
pub const VARIABLE: &str = "ADJUTANT_RUN_DIR";

/// A running server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// `up`, `serve` or `mcp`.
    pub command: String,
    pub pid: u32,
    pub url: String,
    /// The data directory, if it runs a private PostgreSQL.
    pub data_dir: Option<PathBuf>,
    /// The config file, if it has one.
    pub config: Option<PathBuf>,
    pub version: String,
}

/// The file of a running server. Dropping it removes the file.
pub struct Entry {
    path: PathBuf,
    _lock: File,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Running {
    pub fn new(command: &str, url: &str, data_dir: Option<&Path>, config: &Config) -> Self {
        Self {
            command: command.to_owned(),
            pid: std::process::id(),
            url: url.to_owned(),
            data_dir: data_dir.map(Path::to_owned),
            config: config.path.as_deref().map(absolute),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// Lists the server for other commands. Without a folder to write to they need its URL, which
    /// is no reason not to run.
    pub fn list(&self) -> Option<Entry> {
        let listed = write(&folder()?, self);
        if let Err(error) = &listed {
            tracing::debug!("other commands will not find this server: {error}");
        }
        listed.ok()
    }

    /// Whether it runs everything, as `up` does.
    fn is_complete(&self) -> bool {
        self.command != "serve"
    }

    fn listens_at(&self, address: SocketAddr) -> bool {
        let own = self.url.strip_prefix("http://").and_then(|own| own.parse::<SocketAddr>().ok());
        let is_any = |ip: IpAddr| ip.is_unspecified();
        own.is_some_and(|own| {
            own.port() == address.port()
                && (own.ip() == address.ip() || is_any(own.ip()) || is_any(address.ip()))
        })
    }
}

/// For people: which server it is.
impl std::fmt::Display for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`adjutant {}` at {} (process {}", self.command, self.url, self.pid)?;
        if let Some(dir) = &self.data_dir {
            write!(f, ", data directory {}", dir.display())?;
        }
        match &self.config {
            Some(config) => write!(f, ", config {}", config.display())?,
            None => f.write_str(", no config")?,
        }
        write!(f, ", version {})", self.version)
    }
}

/// The servers that run here, by their URLs.
pub fn all() -> Vec<Running> {
    let Some(Ok(files)) = folder().map(fs::read_dir) else { return Vec::new() };
    let is_entry = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "json");
    let paths = files.filter_map(|file| Some(file.ok()?.path())).filter(is_entry);
    let mut running: Vec<Running> = paths.filter_map(|path| read(&path)).collect();
    running.sort_by(|one, other| one.url.cmp(&other.url));
    running
}

/// The servers that run everything: what `adjutant up` and `adjutant mcp` start.
pub fn complete() -> Vec<Running> {
    all().into_iter().filter(Running::is_complete).collect()
}

pub fn at(address: SocketAddr) -> Option<Running> {
    all().into_iter().find(|running| running.listens_at(address))
}

/// The server with this URL.
pub fn of_url(url: &str) -> Option<Running> {
    let address = url.strip_prefix("http://")?.trim_end_matches('/').parse().ok()?;
    at(address)
}

pub fn absolute(path: &Path) -> PathBuf {
    path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}

fn folder() -> Option<PathBuf> {
    let path = |name| std::env::var_os(name).map(PathBuf::from);
    if let Some(chosen) = path(VARIABLE) {
        return Some(chosen).filter(|folder| !folder.as_os_str().is_empty());
    }
    let usable = |name| path(name).filter(|folder| folder.is_absolute());
    if let Some(runtime) = usable("XDG_RUNTIME_DIR").filter(|folder| folder.is_dir()) {
        return Some(runtime.join("adjutant"));
    }
    let state = usable("XDG_STATE_HOME").or_else(|| Some(usable("HOME")?.join(".local/state")));
    Some(state?.join("adjutant/run"))
}

/// The file appears under its name when it is complete and locked.
fn write(folder: &Path, running: &Running) -> std::io::Result<Entry> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let name = format!("{}-{}", running.command, running.pid);
    let (path, new) = (folder.join(format!("{name}.json")), folder.join(format!("{name}.new")));
    let mut file =
        OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&new)?;
    file.lock()?;
    file.write_all(&serde_json::to_vec(running)?)?;
    fs::rename(&new, &path)?;
    Ok(Entry { path, _lock: file })
}

/// A server that runs; the file of one that does not is removed.
fn read(path: &Path) -> Option<Running> {
    let file = File::open(path).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => serde_json::from_slice(&fs::read(path).ok()?).ok(),
        Err(TryLockError::Error(_)) => None,
        Ok(()) => {
            let _ = fs::remove_file(path);
            None
        }
    }
}
