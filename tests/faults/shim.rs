//! A small library that stands between a program and the system, compiled when it is needed.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::support::process::succeed;

pub struct Shim {
    dir: TempDir,
}

impl Shim {
    /// None where programs are not linked in a way that lets us stand between.
    pub fn build(name: &str, source: &str) -> Option<Self> {
        if !cfg!(target_os = "linux") {
            eprintln!("skipped: {name} needs LD_PRELOAD, which is there on Linux only");
            return None;
        }
        let dir = TempDir::new().unwrap();
        open_to_all(dir.path());
        let shim = Self { dir };
        let code = shim.path().join("shim.c");
        std::fs::write(&code, source).unwrap();
        succeed(
            Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o", &shim.library()]).arg(code),
        )
        .unwrap();
        Some(shim)
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn library(&self) -> String {
        self.path().join("shim.so").display().to_string()
    }
}

/// A server that root starts runs as somebody else.
fn open_to_all(dir: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755)).unwrap();
}
