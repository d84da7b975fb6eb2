//! Opens files below a root folder and nothing else. The check is part of the open call, so there
//! is no race between them.

use std::fs::{File, FileType};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Dir, Mode, OFlags, openat};
use rustix::io::Errno;

/// The most entries of a folder that are listed.
const MAX_ENTRIES: usize = 10_000;

/// Non-blocking, so that opening a FIFO does not wait for a writer.
const OPEN: OFlags =
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// A root folder.
///
/// On Linux, symbolic links are followed if they stay below the root, which `openat2` enforces.
/// Where `openat2` is not available (other systems, some sandboxes), no link is followed. In both
/// cases a concurrent rename cannot bypass the check. Hard links and mounts below the root are not
/// checked.
pub(super) struct Root {
    path: PathBuf,
    max_bytes: usize,
}

pub(super) struct Entry {
    pub(super) name: String,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Folder,
    Link,
    /// A device, a socket, a FIFO, or unknown to the file system.
    Other,
}

/// The part of a file that was read.
pub(super) struct Text {
    pub(super) text: String,
    pub(super) is_cut: bool,
    /// Invalid UTF-8 was replaced.
    pub(super) is_lossy: bool,
}

impl Root {
    pub(super) fn new(path: &Path, max_bytes: usize) -> Result<Self, String> {
        // Absolute, so that a change of the working directory does not matter.
        let path = std::path::absolute(path).map_err(|error| error.to_string())?;
        let root = Self { path, max_bytes };
        root.entries(Path::new(".")).map_err(|why| format!("{}: {why}", root.path.display()))?;
        Ok(root)
    }

    pub(super) fn read(&self, path: &Path) -> Result<Text, String> {
        let file = File::from(self.open(path, OPEN)?);
        let kind = file.metadata().map_err(|error| explain(&error))?.file_type();
        if !kind.is_file() {
            return Err(not_a_file(kind));
        }
        let mut bytes = Vec::new();
        let max = u64::try_from(self.max_bytes).unwrap_or(u64::MAX);
        let read = file
            .take(max.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|error| explain(&error))?;
        bytes.truncate(self.max_bytes);
        if bytes[..bytes.len().min(8192)].contains(&0) {
            return Err("This is a binary file, so it cannot be read.".to_owned());
        }
        let is_cut = read > self.max_bytes;
        let (text, is_lossy) = match String::from_utf8(bytes) {
            Ok(text) => (text, false),
            // The limit may have split a character; that does not make the file invalid.
            Err(error) if is_cut && error.utf8_error().error_len().is_none() => {
                let end = error.utf8_error().valid_up_to();
                (String::from_utf8_lossy(&error.as_bytes()[..end]).into_owned(), false)
            }
            Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), true),
        };
        Ok(Text { text, is_cut, is_lossy })
    }

    /// The entries in the order of their names, and whether there are more.
    pub(super) fn entries(&self, path: &Path) -> Result<(Vec<Entry>, bool), String> {
        let folder = self.open(path, OPEN | OFlags::DIRECTORY)?;
        let mut entries = Vec::new();
        for entry in Dir::read_from(folder).map_err(|error| explain(&error.into()))? {
            let entry = entry.map_err(|error| explain(&error.into()))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name == "." || name == ".." {
                continue;
            }
            if entries.len() == MAX_ENTRIES {
                return Ok((sorted(entries), true));
            }
            entries.push(Entry { name, kind: Kind::of(entry.file_type()) });
        }
        Ok((sorted(entries), false))
    }

    fn open(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, String> {
        let path = inside(path)?;
        let root = File::open(&self.path).map_err(|error| explain(&error))?;
        match open_beneath(&root, &path, flags) {
            Ok(opened) => Ok(opened),
            Err(Errno::NOSYS | Errno::PERM) => {
                open_step_by_step(root.into(), &path, flags).map_err(|e| explain(&e.into()))
            }
            Err(error) => Err(explain(&error.into())),
        }
    }
}

impl Kind {
    fn of(kind: rustix::fs::FileType) -> Self {
        match kind {
            rustix::fs::FileType::RegularFile => Self::File,
            rustix::fs::FileType::Directory => Self::Folder,
            rustix::fs::FileType::Symlink => Self::Link,
            rustix::fs::FileType::Fifo
            | rustix::fs::FileType::Socket
            | rustix::fs::FileType::CharacterDevice
            | rustix::fs::FileType::BlockDevice
            | rustix::fs::FileType::Unknown => Self::Other,
        }
    }
}

/// The path without `.` components. Absolute paths and `..` are refused, even if they would stay
/// below the root.
fn inside(path: &Path) -> Result<PathBuf, String> {
    let mut inside = PathBuf::from(".");
    for component in path.components() {
        match component {
            Component::Normal(name) => inside.push(name),
            Component::CurDir => {}
            Component::ParentDir => return Err("A path must not contain `..`.".to_owned()),
            Component::RootDir | Component::Prefix(_) => {
                return Err(
                    "A path must be relative to the root folder and not start with `/`.".to_owned()
                );
            }
        }
    }
    Ok(inside)
}

#[cfg(target_os = "linux")]
fn open_beneath(root: &File, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    use rustix::fs::{ResolveFlags, openat2};
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let mut opened = Err(Errno::AGAIN);
    // The kernel returns EAGAIN if a component is renamed meanwhile.
    for _ in 0..10 {
        opened = openat2(root, path, flags, Mode::empty(), resolve);
        if !matches!(opened, Err(Errno::AGAIN)) {
            break;
        }
    }
    opened
}

#[cfg(not(target_os = "linux"))]
fn open_beneath(_: &File, _: &Path, _: OFlags) -> Result<OwnedFd, Errno> {
    Err(Errno::NOSYS)
}

/// Opens each folder relative to its parent, and follows no links.
fn open_step_by_step(root: OwnedFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut names = path.components().peekable();
    let mut opened = root;
    while let Some(name) = names.next() {
        let last = names.peek().is_none();
        let flags = if last { flags } else { OPEN | OFlags::DIRECTORY };
        opened = openat(&opened, name.as_os_str(), flags | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Ok(opened)
}

fn sorted(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    entries
}

fn not_a_file(kind: FileType) -> String {
    if kind.is_dir() {
        "This is a folder: `list_files` shows what is in it."
    } else {
        "This is not a regular file."
    }
    .to_owned()
}

/// The error for the agent, without the path of the root.
fn explain(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::NOENT) => "There is nothing at this path.",
        Some(Errno::XDEV | Errno::LOOP | Errno::MLINK) => {
            "This path contains a symbolic link that is not followed: it leaves the root or is circular."
        }
        Some(Errno::NOTDIR) => "There is no folder at this path.",
        Some(Errno::ACCESS | Errno::PERM) => "Permission denied.",
        Some(Errno::NAMETOOLONG) => "This path is too long.",
        Some(Errno::NXIO) => "This is not a regular file.",
        Some(_) | None => return format!("This cannot be read: {}.", error.kind()),
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn without_openat2_no_link_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("root/a/b")).unwrap();
        std::fs::write(dir.path().join("root/a/b/file"), "inside").unwrap();
        std::fs::write(dir.path().join("secret"), "outside").unwrap();
        symlink("b", dir.path().join("root/a/link")).unwrap();
        symlink("../secret", dir.path().join("root/out")).unwrap();
        let open = |path: &str| {
            let root = File::open(dir.path().join("root")).unwrap();
            open_step_by_step(root.into(), &inside(Path::new(path)).unwrap(), OPEN)
        };
        let mut text = String::new();
        File::from(open("a/b/file").unwrap()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "inside");
        assert!(open(".").is_ok());
        for refused in ["a/link/file", "a/link", "out", "a/b/file/more", "none"] {
            assert!(open(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn a_path_cannot_leave_the_root() {
        for refused in ["..", "../x", "a/../b", "/", "/etc/passwd", "./../x", "a/.."] {
            assert!(inside(Path::new(refused)).is_err(), "{refused}");
        }
        for (path, plain) in [
            (".", "."),
            ("a", "./a"),
            ("./a//b/.", "./a/b"),
            ("...", "./..."),
            ("a/..b", "./a/..b"),
        ] {
            assert_eq!(inside(Path::new(path)), Ok(PathBuf::from(plain)), "{path}");
        }
    }
}
