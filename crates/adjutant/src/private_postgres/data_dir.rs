//! The directory of a private PostgreSQL: one process at a time, and nothing in it is ever thrown away.
//!
//! ```text
//! adjutant.lock   held by the running process, with its pid
//! adjutant.url    where that process serves HTTP, once it does
//! postgres/       the cluster
//! postgres.new*/  a cluster in the making; whole when it is renamed
//! postgres.log    what the server said
//! run/            the socket, when a socket can have that path
//! ```

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use tempfile::TempDir;

use super::Place;
use super::run_as::RunAs;

const URL: &str = "adjutant.url";
const SOCKET: &str = ".s.PGSQL.5432";
/// What macOS allows for a socket's path; Linux allows four more.
const LONGEST_SOCKET_PATH: usize = 103;
/// A process killed while it starts another leaves the lock to the fork, until that one has become the other program.
const HELD_BY_A_FORK: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(20);

pub struct DataDir {
    root: PathBuf,
    socket_dir: PathBuf,
    /// The whole of a throwaway, or the socket's directory when it had to be elsewhere. Removed at the end.
    pub temporary: Option<TempDir>,
    kept: bool,
    is_safe: bool,
    /// The kernel gives it up when we go, however we go.
    _lock: Option<File>,
}

impl DataDir {
    pub async fn open(place: Place, run_as: &RunAs) -> anyhow::Result<Self> {
        let mut dir = match place {
            Place::Kept(path) => Self::kept(&path, run_as).await?,
            Place::Throwaway => Self::throwaway()?,
            Place::SafeThrowaway => Self { is_safe: true, ..Self::throwaway()? },
        };
        if dir.kept && !fits(&dir.socket_dir) {
            let elsewhere = short_temp_dir()?;
            dir.socket_dir = elsewhere.path().into();
            dir.temporary = Some(elsewhere);
        }
        make(&dir.socket_dir, 0o700)?;
        if let Some(temporary) = &dir.temporary {
            run_as.give(temporary.path())?;
        }
        run_as.give(&dir.socket_dir)?;
        Ok(dir)
    }

    async fn kept(path: &Path, run_as: &RunAs) -> anyhow::Result<Self> {
        if path.exists() && !path.is_dir() {
            bail!("it is a file. Give a directory with --data-dir; one that does not exist yet is made.");
        }
        // Root's own directory has to let the server's user through; what is in it is closed.
        let mode = if matches!(run_as, RunAs::Ourselves) { 0o700 } else { 0o711 };
        make(path, mode)?;
        let root = path.canonicalize()?;
        let lock = lock(&root.join("adjutant.lock")).await?;
        // Of whoever had it before; not there is the usual case.
        let _ = fs::remove_file(root.join(URL));
        let socket_dir = root.join("run");
        Ok(Self { root, socket_dir, temporary: None, kept: true, is_safe: true, _lock: Some(lock) })
    }

    fn throwaway() -> anyhow::Result<Self> {
        let temporary = short_temp_dir()?;
        let root = temporary.path().canonicalize()?;
        let socket_dir = root.join("run");
        Ok(Self { root, socket_dir, temporary: Some(temporary), kept: false, is_safe: false, _lock: None })
    }

    pub fn is_kept(&self) -> bool {
        self.kept
    }

    /// Whether a power cut may cost nothing.
    pub fn is_safe(&self) -> bool {
        self.is_safe
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Says where this process serves.
    pub fn tell_url(&self, url: &str) -> anyhow::Result<()> {
        let (path, new) = (self.root.join(URL), self.root.join("adjutant.url.new"));
        fs::write(&new, url).and_then(|()| fs::rename(&new, &path)).map_err(|error| explain(&error, &path))
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

    /// The socket is ours alone; left by a killed server, its lock file would be in the way of the next.
    pub fn remove_old_socket(&self) {
        for name in [SOCKET.to_owned(), format!("{SOCKET}.lock")] {
            // Not there is the usual case; a real obstacle is PostgreSQL's to name.
            let _ = fs::remove_file(self.socket_dir.join(name));
        }
    }

    /// The major version of the cluster; none when there is no cluster yet.
    pub fn version(&self) -> anyhow::Result<Option<u32>> {
        let cluster = self.cluster();
        if fs::symlink_metadata(&cluster).is_err() {
            return Ok(None);
        }
        let file = cluster.join("PG_VERSION");
        let major = fs::read_to_string(&file).ok().and_then(|version| version.trim().parse().ok());
        let Some(major) = major else {
            bail!(
                "{} is there, but it is no PostgreSQL cluster (its PG_VERSION cannot be read). It was not made by \
                 adjutant or has lost files, so it is left as it is: move it away to start with an empty database, or \
                 choose another directory with --data-dir.",
                cluster.display()
            );
        };
        Ok(Some(major))
    }

    pub fn what_to_do(&self) -> &'static str {
        if self.kept {
            "Choose a directory that it can reach with --data-dir, for example --data-dir /var/lib/adjutant."
        } else {
            "Set TMPDIR to a directory that every user can reach, for example TMPDIR=/tmp."
        }
    }
}

fn make(dir: &Path, mode: u32) -> anyhow::Result<()> {
    DirBuilder::new().recursive(true).mode(mode).create(dir).map_err(|error| explain(&error, dir))
}

/// Another process has the directory.
#[derive(Debug)]
pub struct InUse {
    pid: String,
}

impl std::fmt::Display for InUse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "it is in use by process {}. Use that one, stop it first, or give this one its own directory with --data-dir.",
            self.pid
        )
    }
}

impl std::error::Error for InUse {}

/// Where the process serves that has this directory, as far as it has said so.
pub fn url_of(dir: &Path) -> Option<String> {
    fs::read_to_string(dir.join(URL)).ok().map(|url| url.trim().to_owned()).filter(|url| !url.is_empty())
}

/// Takes the directory for this process, or says which one has it.
async fn lock(path: &Path) -> anyhow::Result<File> {
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| explain(&error, path))?;
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::Error(error)) => return Err(error).context("cannot lock adjutant.lock"),
            Err(TryLockError::WouldBlock) if began.elapsed() < HELD_BY_A_FORK => {
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
        .map_err(|error| explain(&error, path))?;
    Ok(file)
}

/// An error of ours on a file, with what to do about it.
pub fn explain(error: &std::io::Error, path: &Path) -> anyhow::Error {
    let path = path.display();
    if error.kind() == ErrorKind::StorageFull {
        return anyhow!(
            "{path} cannot be written: no space is left. Nothing was lost: make room there and start again."
        );
    }
    anyhow!("{path} cannot be written ({error}). Give a directory that you may write to with --data-dir.")
}

/// To the server and to libpq a comma ends one socket directory and begins the next.
fn fits(dir: &Path) -> bool {
    let path = dir.join(SOCKET).into_os_string();
    path.as_bytes().len() <= LONGEST_SOCKET_PATH && !path.as_bytes().contains(&b',')
}

fn short_temp_dir() -> anyhow::Result<TempDir> {
    let usual = std::env::temp_dir();
    let parent = if fits(&usual.join("adjutant-123456").join("run")) { usual } else { "/tmp".into() };
    tempfile::Builder::new()
        .prefix("adjutant-")
        .permissions(fs::Permissions::from_mode(0o700))
        .tempdir_in(&parent)
        .with_context(|| format!("cannot make a directory in {}", parent.display()))
}
