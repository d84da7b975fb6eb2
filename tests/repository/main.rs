//! Checks of the texts in the repository. They need no database and no process:
//! `cargo test --package adjutant --test repository`.
#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]

mod conformance;
mod documents;
mod markdown;
mod names;
mod printing;
mod sizes;
mod source_code;
mod sql;
mod widths;

use std::fs;
use std::path::{Path, PathBuf};

struct Text {
    /// Relative to the root of the repository.
    path: PathBuf,
    text: String,
}

impl Text {
    fn has_extension(&self, extensions: &[&str]) -> bool {
        self.path.extension().is_some_and(|own| extensions.iter().any(|one| own == *one))
    }

    /// A line of it, as compilers print it.
    fn at(&self, line: usize) -> String {
        format!("{}:{line}", self.path.display())
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every text of the repository, except for generated ones.
fn texts() -> Vec<Text> {
    let mut found = Vec::new();
    collect(&root(), Path::new(""), &mut found);
    assert!(found.len() > 100, "the texts of the repository are not where they should be");
    found
}

fn collect(root: &Path, folder: &Path, found: &mut Vec<Text>) {
    const SKIPPED: [&str; 5] = ["target", ".git", ".sqlx", "node_modules", "claude_agents"];
    for entry in fs::read_dir(root.join(folder)).unwrap() {
        let name = entry.unwrap().file_name();
        let path = folder.join(&name);
        if SKIPPED.iter().any(|skipped| name == *skipped) {
            continue;
        }
        if root.join(&path).is_dir() {
            collect(root, &path, found);
        } else if let Ok(text) = fs::read_to_string(root.join(&path)) {
            found.push(Text { path, text });
        }
    }
}

#[track_caller]
fn assert_none(rule: &str, broken: &[String]) {
    assert!(broken.is_empty(), "{rule}:\n{}", broken.join("\n"));
}
