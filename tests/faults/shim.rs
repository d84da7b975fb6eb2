//! A library for LD_PRELOAD that replaces functions of libc. It is compiled by the test.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::support::process::succeed;

pub struct Shim {
    dir: TempDir,
}

impl Shim {
    /// `None` on systems without LD_PRELOAD.
    pub fn build(name: &str, source: &str) -> Option<Self> {
        if !cfg!(target_os = "linux") {
            eprintln!("skipped: {name} needs LD_PRELOAD, which exists only on Linux");
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

/// PostgreSQL runs as another user if root starts it.
fn open_to_all(dir: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755)).unwrap();
}
