//! The data directory of a private PostgreSQL. One process uses it at a time, and no data in it is
//! ever deleted.
//!
//! ```text
//! adjutant.lock   held by the running process, with its pid
//! adjutant.url    the URL of that process's HTTP server
//! postgres/       the cluster
//! postgres.new*/  an unfinished cluster
//! postgres.log    the log of the server
//! run/            the socket, if its path is short enough
//! ```

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use tempfile::TempDir;

use super::DataLocation;
use super::run_as::RunAs;

const LOCK: &str = "adjutant.lock";
const URL: &str = "adjutant.url";
const SOCKET: &str = ".s.PGSQL.5432";
/// The limit of macOS for a socket's path; Linux allows four more.
const MAX_SOCKET_PATH: usize = 103;
/// If a process is killed while it starts a program, its fork holds the lock until the exec.
const FORK_TIMEOUT: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(20);

pub struct DataDir {
    root: PathBuf,
    socket_dir: PathBuf,
    /// The whole temporary directory, or the directory of the socket if the data directory's path
    /// is too long. Removed at the end.
    pub temporary: Option<TempDir>,
    kept: bool,
    is_durable: bool,
    /// The kernel releases the lock when the process ends.
    _lock: Option<File>,
}

impl DataDir {
    pub async fn open(location: DataLocation, run_as: &RunAs) -> anyhow::Result<Self> {
        let mut dir = match location {
            DataLocation::Directory(path) => Self::kept(&path, run_as).await?,
            DataLocation::Temporary => Self::temporary_dir()?,
            DataLocation::TemporaryDurable => Self { is_durable: true, ..Self::temporary_dir()? },
        };
        if dir.kept && !fits_socket_path(&dir.socket_dir) {
            let elsewhere = short_temp_dir()?;
            dir.socket_dir = elsewhere.path().into();
            dir.temporary = Some(elsewhere);
        }
        create(&dir.socket_dir, 0o700)?;
        if let Some(temporary) = &dir.temporary {
            run_as.give_ownership(temporary.path())?;
        }
        run_as.give_ownership(&dir.socket_dir)?;
        Ok(dir)
    }

    async fn kept(path: &Path, run_as: &RunAs) -> anyhow::Result<Self> {
        if path.exists() && !path.is_dir() {
            bail!(
                "it is a file. Pass a directory with --data-dir; it is created if it does not exist."
            );
        }
        // The server's user must be able to traverse root's directory. Its contents have stricter
        // modes.
        let mode = if matches!(run_as, RunAs::CurrentUser) { 0o700 } else { 0o711 };
        create(path, mode)?;
        let root = path.canonicalize()?;
        let lock = lock(&root.join(LOCK)).await?;
        // Left by an earlier process; usually it does not exist.
        let _ = fs::remove_file(root.join(URL));
        let socket_dir = root.join("run");
        Ok(Self {
            root,
            socket_dir,
            temporary: None,
            kept: true,
            is_durable: true,
            _lock: Some(lock),
        })
    }

    fn temporary_dir() -> anyhow::Result<Self> {
        let temporary = short_temp_dir()?;
        let root = temporary.path().canonicalize()?;
        let socket_dir = root.join("run");
        Ok(Self {
            root,
            socket_dir,
            temporary: Some(temporary),
            kept: false,
            is_durable: false,
            _lock: None,
        })
    }

    pub fn is_kept(&self) -> bool {
        self.kept
    }

    /// Whether data must survive a power failure.
    pub fn is_durable(&self) -> bool {
        self.is_durable
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Writes the URL of this process's HTTP server to the directory.
    pub fn publish_url(&self, url: &str) -> anyhow::Result<()> {
        let (path, new) = (self.root.join(URL), self.root.join("adjutant.url.new"));
        fs::write(&new, url)
            .and_then(|()| fs::rename(&new, &path))
            .map_err(|error| write_error(&error, &path))
    }

    pub fn cluster(&self) -> PathBuf {
        self.root.join("postgres")
    }

    pub fn log(&self) -> PathBuf {
        self.root.join("postgres.log")
    }

    pub fn socket_dir(&self) -> &Path {
        &self.socket_dir
    }

    /// A killed server leaves the socket's lock file behind, which would stop the next server.
    pub fn remove_old_socket(&self) {
        for name in [SOCKET.to_owned(), format!("{SOCKET}.lock")] {
            // Usually they do not exist. Other errors are reported by PostgreSQL.
            let _ = fs::remove_file(self.socket_dir.join(name));
        }
    }

    /// The major version of the cluster; `None` if there is no cluster yet.
    pub fn version(&self) -> anyhow::Result<Option<u32>> {
        let cluster = self.cluster();
        if fs::symlink_metadata(&cluster).is_err() {
            return Ok(None);
        }
        let file = cluster.join("PG_VERSION");
        let major = fs::read_to_string(&file).ok().and_then(|version| version.trim().parse().ok());
        let Some(major) = major else {
            bail!(
                "{} is not a PostgreSQL cluster (its PG_VERSION cannot be read). It was not created by \
                 adjutant or has lost files, and was not changed. Move it away to start with an empty database, or \
                 choose another directory with --data-dir.",
                cluster.display()
            );
        };
        Ok(Some(major))
    }

    pub fn advice(&self) -> &'static str {
        if self.kept {
            "Choose a directory that it can access with --data-dir, for example --data-dir /var/lib/adjutant."
        } else {
            "Set TMPDIR to a directory that every user can access, for example TMPDIR=/tmp."
        }
    }
}

fn create(dir: &Path, mode: u32) -> anyhow::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(dir)
        .map_err(|error| write_error(&error, dir))
}

/// Another process uses the directory.
#[derive(Debug)]
pub struct InUse {
    pid: String,
}

impl std::fmt::Display for InUse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "it is in use by process {}. Use that process, stop it first, or choose another directory with --data-dir.",
            self.pid
        )
    }
}

impl std::error::Error for InUse {}

/// The URL that the process using this directory has published.
pub fn published_url(dir: &Path) -> Option<String> {
    fs::read_to_string(dir.join(URL))
        .ok()
        .map(|url| url.trim().to_owned())
        .filter(|url| !url.is_empty())
}

/// Whether a process has the directory locked.
pub fn is_in_use(dir: &Path) -> bool {
    let lock = File::open(dir.join(LOCK)).map(|file| file.try_lock_shared());
    matches!(lock, Ok(Err(TryLockError::WouldBlock)))
}

/// Locks the directory for this process, or fails with the pid of the process that has it.
async fn lock(path: &Path) -> anyhow::Result<File> {
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| write_error(&error, path))?;
    let started = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::Error(error)) => {
                return Err(error).context("cannot lock adjutant.lock");
            }
            Err(TryLockError::WouldBlock) if started.elapsed() < FORK_TIMEOUT => {
                tokio::time::sleep(POLL).await
            }
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                let _ = file.read_to_string(&mut pid);
                return Err(InUse { pid: pid.trim().to_owned() }.into());
            }
        }
    }
    file.set_len(0)
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(|error| write_error(&error, path))?;
    Ok(file)
}

/// An error for a path that cannot be written, with advice.
pub fn write_error(error: &std::io::Error, path: &Path) -> anyhow::Error {
    let path = path.display();
    if error.kind() == ErrorKind::StorageFull {
        return anyhow!(
            "{path} cannot be written: the disk is full. No data was lost: free some space and start again."
        );
    }
    anyhow!("{path} cannot be written ({error}). Choose a writable directory with --data-dir.")
}

/// PostgreSQL and libpq treat a comma as a separator of socket directories.
fn fits_socket_path(dir: &Path) -> bool {
    let path = dir.join(SOCKET).into_os_string();
    path.as_bytes().len() <= MAX_SOCKET_PATH && !path.as_bytes().contains(&b',')
}

fn short_temp_dir() -> anyhow::Result<TempDir> {
    let usual = std::env::temp_dir();
    let parent = if fits_socket_path(&usual.join("adjutant-123456").join("run")) {
        usual
    } else {
        "/tmp".into()
    };
    tempfile::Builder::new()
        .prefix("adjutant-")
        .permissions(fs::Permissions::from_mode(0o700))
        .tempdir_in(&parent)
        .with_context(|| format!("cannot create a directory in {}", parent.display()))
}
