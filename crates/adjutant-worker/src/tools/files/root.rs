//! Opens what is below a root, and nothing else, without a moment between the check and the opening.

use std::fs::{File, FileType};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Dir, Mode, OFlags, openat};
use rustix::io::Errno;

/// A folder with more entries is shown in part.
const MAX_ENTRIES: usize = 10_000;

/// Does not wait for the other end of a FIFO.
const OPEN: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// On Linux, symbolic links are followed as far as they stay below the root, which the kernel sees to. Where its `openat2` is not
/// to be had (other systems, some sandboxes), none is followed. Either way what was checked is what is opened, whatever is renamed
/// meanwhile. What remains: hard links and mounts below the root are taken for what they show.
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
    /// A device, a socket, a FIFO, or what the file system does not say.
    Other,
}

/// The text of a file, as far as it is read.
pub(super) struct Text {
    pub(super) text: String,
    pub(super) is_cut: bool,
    /// Some of it was not UTF-8, and is replaced.
    pub(super) is_lossy: bool,
}

impl Root {
    pub(super) fn new(path: &Path, max_bytes: usize) -> Result<Self, String> {
        // Absolute, so that it means the same whatever the working directory becomes.
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
        let most = u64::try_from(self.max_bytes).unwrap_or(u64::MAX);
        let read =
            file.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| explain(&error))?;
        bytes.truncate(self.max_bytes);
        if bytes[..bytes.len().min(8192)].contains(&0) {
            return Err("This is a binary file, so it cannot be read.".to_owned());
        }
        let is_cut = read > self.max_bytes;
        let (text, is_lossy) = match String::from_utf8(bytes) {
            Ok(text) => (text, false),
            // The limit may have cut a character in two, which says nothing about the file.
            Err(error) if is_cut && error.utf8_error().error_len().is_none() => {
                let end = error.utf8_error().valid_up_to();
                (String::from_utf8_lossy(&error.as_bytes()[..end]).into_owned(), false)
            }
            Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), true),
        };
        Ok(Text { text, is_cut, is_lossy })
    }

    /// By name, and whether there are more than these.
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

/// The path without its dots. One that goes up or begins at the top is refused, even where it would come back.
fn inside(path: &Path) -> Result<PathBuf, String> {
    let mut inside = PathBuf::from(".");
    for component in path.components() {
        match component {
            Component::Normal(name) => inside.push(name),
            Component::CurDir => {}
            Component::ParentDir => return Err("A path must not have `..` in it.".to_owned()),
            Component::RootDir | Component::Prefix(_) => {
                return Err("A path is relative to the root folder, and does not begin with `/`.".to_owned());
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
    // The kernel gives up when something is renamed on the way.
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

/// Each folder is opened in the one before it, and none of them through a link.
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

/// For a child: without a word about where the root is.
fn explain(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::NOENT) => "There is nothing at this path.",
        Some(Errno::XDEV | Errno::LOOP | Errno::MLINK) => {
            "This path leads over a symbolic link that is not followed: out of the root, or in a circle."
        }
        Some(Errno::NOTDIR) => "There is no folder at this path.",
        Some(Errno::ACCESS | Errno::PERM) => "This may not be read.",
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
    fn without_the_kernels_help_no_link_is_followed_at_all() {
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
    fn a_path_stays_inside_by_its_words() {
        for refused in ["..", "../x", "a/../b", "/", "/etc/passwd", "./../x", "a/.."] {
            assert!(inside(Path::new(refused)).is_err(), "{refused}");
        }
        for (path, plain) in
            [(".", "."), ("a", "./a"), ("./a//b/.", "./a/b"), ("...", "./..."), ("a/..b", "./a/..b")]
        {
            assert_eq!(inside(Path::new(path)), Ok(PathBuf::from(plain)), "{path}");
        }
    }
}
