//! The user that the server runs as: PostgreSQL refuses to run as root.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, lchown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// For tests: forces the way to run as root (`namespace` or `uid`).
const FORCE: &str = "ADJUTANT_POSTGRES_RUN_AS";

/// A user in /etc/passwd; initdb looks up the name of its user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    name: String,
    uid: u32,
    gid: u32,
}

#[derive(Debug)]
pub enum RunAs {
    /// The current user, who is not root.
    CurrentUser,
    /// A user namespace in which root appears as another user: files still belong to root, and
    /// root's home is accessible.
    Namespace(User),
    /// Another user, who owns the files.
    Other(User),
}

impl RunAs {
    pub fn choose() -> anyhow::Result<Self> {
        // The owner of a new file is the effective user. The standard library has no direct way to
        // get it.
        let uid = tempfile::tempfile().and_then(|file| file.metadata()).with_context(|| {
            format!("cannot write to the temp directory {}", std::env::temp_dir().display())
        })?;
        if uid.uid() != 0 {
            return Ok(Self::CurrentUser);
        }
        let passwd = fs::read_to_string("/etc/passwd").context("cannot read /etc/passwd")?;
        let Some(user) = server_user(&passwd) else {
            bail!(
                "PostgreSQL refuses to run as root, and /etc/passwd has no user postgres or nobody to run it as. Run \
                 adjutant as another user, or add one of these."
            );
        };
        let forced = std::env::var(FORCE).unwrap_or_default();
        let namespace = Self::Namespace(user.clone());
        if forced == "namespace" || (forced != "uid" && namespace.works()) {
            return Ok(namespace);
        }
        Ok(Self::Other(user))
    }

    /// The command that runs a program as this user.
    pub fn command(&self, program: &OsStr) -> Command {
        match self {
            Self::CurrentUser => Command::new(program),
            Self::Namespace(user) => {
                let mut command = Command::new("unshare");
                command
                    .arg("--user")
                    .arg(format!("--map-user={}", user.uid))
                    .arg(format!("--map-group={}", user.gid))
                    .arg("--")
                    .arg(program);
                command
            }
            Self::Other(user) => {
                let mut command = Command::new(program);
                command.uid(user.uid).gid(user.gid);
                command
            }
        }
    }

    /// Kernels, containers and old versions of `unshare` may refuse.
    fn works(&self) -> bool {
        self.command(OsStr::new("true"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }

    /// Makes the server's user the owner of `dir` and everything in it.
    pub fn give_ownership(&self, dir: &Path) -> anyhow::Result<()> {
        let (uid, gid) = match self {
            Self::CurrentUser => return Ok(()),
            Self::Namespace(_) => (0, 0),
            Self::Other(user) => (user.uid, user.gid),
        };
        if fs::symlink_metadata(dir).is_ok_and(|found| found.uid() == uid) {
            return Ok(());
        }
        chown_all(dir, uid, gid)
            .with_context(|| format!("cannot make user {uid} the owner of {}", dir.display()))
    }

    /// Fails early and clearly if the server's user cannot access a path.
    pub fn check_access(&self, path: &Path, advice: &str) -> anyhow::Result<()> {
        if let Self::CurrentUser = self {
            return Ok(());
        }
        let accessible = self
            .command(OsStr::new("sh"))
            .args([
                "-c",
                r#"if [ -d "$1" ]; then cd "$1" && [ -w . ]; else [ -x "$1" ]; fi"#,
                "reach",
            ])
            .arg(path)
            .current_dir("/")
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .context("cannot run sh")?;
        if !accessible.success() {
            bail!("{} cannot access {}. {advice}", self.describe(), path.display());
        }
        Ok(())
    }

    fn describe(&self) -> String {
        match self {
            Self::CurrentUser => "PostgreSQL".into(),
            Self::Namespace(_) => {
                "PostgreSQL refuses to run as root, so it runs in a user namespace without root's rights; from there it"
                    .into()
            }
            Self::Other(user) => {
                format!("PostgreSQL refuses to run as root, so it runs as user {}, who", user.name)
            }
        }
    }
}

/// The directory itself comes last: its owner shows that everything in it is done.
fn chown_all(path: &Path, uid: u32, gid: u32) -> std::io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() {
        for entry in fs::read_dir(path)? {
            chown_all(&entry?.path(), uid, gid)?;
        }
    }
    lchown(path, Some(uid), Some(gid))
}

fn server_user(passwd: &str) -> Option<User> {
    ["postgres", "_postgres", "nobody"].into_iter().find_map(|name| {
        let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        let (uid, gid) = (id(fields.next()?)?, id(fields.next()?)?);
        (uid != 0).then(|| User { name: name.into(), uid, gid })
    })
}

/// macOS writes nobody's ids as -2.
fn id(field: &str) -> Option<u32> {
    field.parse().ok().or_else(|| field.parse().ok().map(i32::cast_unsigned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_postgres_is_preferred_to_nobody() {
        let passwd = "root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/false\npostgres:x:101:104::/:/bin/sh\n";
        assert_eq!(server_user(passwd), Some(User { name: "postgres".into(), uid: 101, gid: 104 }));
    }

    #[test]
    fn nobody_on_macos_has_negative_ids() {
        let user = server_user("nobody:*:-2:-2:Unprivileged User:/var/empty:/usr/bin/false\n");
        assert_eq!(
            user,
            Some(User { name: "nobody".into(), uid: u32::MAX - 1, gid: u32::MAX - 1 })
        );
    }
}
