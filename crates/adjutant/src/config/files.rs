//! Reads the files that a config names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::problem::{Findings, Location, Problem};
use super::tree::{Node, Table};

/// A larger file is a mistake: no model reads that much.
const MAX_BYTES: u64 = 1 << 20;

/// A deeper folder is a mistake, or a loop of symbolic links.
const MAX_DEPTH: usize = 8;

/// Resolves the paths of a config.
#[derive(Debug, Clone)]
pub struct PathBase {
    /// The folder of the config file.
    pub folder: PathBuf,
    pub home: Option<PathBuf>,
}

impl PathBase {
    /// A path relative to the config file; `~/` is the home folder.
    pub fn resolve(&self, path: &str) -> PathBuf {
        match (path.strip_prefix("~/"), &self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => {
                let path = Path::new(path);
                self.folder.join(path.strip_prefix("./").unwrap_or(path))
            }
        }
    }
}

/// A Markdown file in a folder of agents or skills.
#[derive(Debug, Clone)]
pub struct MarkdownFile {
    /// The path, as problems show it.
    pub display: Arc<str>,
    pub path: PathBuf,
    pub text: Result<String, Problem>,
}

/// The contents of all files that a config names.
#[derive(Debug, Clone, Default)]
pub struct Files {
    /// Prompt files, by the location of the setting that names them.
    pub prompts: BTreeMap<Location, Result<String, Problem>>,
    pub agents: Vec<MarkdownFile>,
    /// Files called `SKILL.md`.
    pub skills: Vec<MarkdownFile>,
    /// Folders of agents that could not be listed.
    pub unreadable: Vec<PathBuf>,
}

impl Files {
    /// Reads the prompts and the folders that a checked config names.
    pub fn gather(table: &Table, base: &PathBase, findings: &mut Findings) -> Self {
        let prompts = prompt_files(table)
            .map(|(node, path)| (node.location.clone(), read_text(&base.resolve(path))))
            .collect();
        let (agents, unreadable) = read_folders(AGENTS_DIR, table, base, findings);
        let (mut skills, _) = read_folders(SKILLS_DIR, table, base, findings);
        skills.retain(|file| {
            file.path.file_name().is_some_and(|name| name.eq_ignore_ascii_case("skill.md"))
        });
        Self { prompts, agents, skills, unreadable }
    }
}

const AGENTS_DIR: &str = "agents_dir";
const SKILLS_DIR: &str = "skills_dir";

/// The Markdown files of the folders that a setting names, and the folders that could not be
/// listed.
fn read_folders(
    setting: &str,
    table: &Table,
    base: &PathBase,
    findings: &mut Findings,
) -> (Vec<MarkdownFile>, Vec<PathBuf>) {
    let (mut files, mut unreadable) = (Vec::new(), Vec::new());
    for (node, path) in folders(setting, table) {
        let folder = base.resolve(path);
        match list(&folder) {
            Ok(paths) => files.extend(paths.into_iter().map(|path| MarkdownFile {
                display: display(&path),
                text: read_text(&path),
                path,
            })),
            Err(problem) => {
                findings.error(&node.location, setting, problem);
                unreadable.push(folder);
            }
        }
    }
    // A folder may be listed twice, or contain another listed folder.
    let mut seen = BTreeSet::new();
    files.retain(|file: &MarkdownFile| seen.insert(file.path.clone()));
    (files, unreadable)
}

fn folders<'a>(setting: &str, table: &'a Table) -> impl Iterator<Item = (&'a Node, &'a str)> {
    table.get(setting).into_iter().flat_map(Node::texts)
}

fn prompt_files(table: &Table) -> impl Iterator<Item = (&Node, &str)> {
    let agents = table.get("agents").and_then(Node::as_table);
    let agents = agents.into_iter().flat_map(Table::values).filter_map(Node::as_table);
    agents.filter_map(|agent| agent.get("system_prompt_file")).flat_map(Node::texts)
}

fn display(path: &Path) -> Arc<str> {
    path.display().to_string().into()
}

/// The Markdown files of a folder and of its subfolders, sorted. Hidden files are skipped, symbolic
/// links are followed.
fn list(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    let mut left = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = left.pop() {
        let cannot = |error: io::Error| {
            format!("cannot read the folder {}: {}", folder.display(), reason(&error))
        };
        // The real path, so that a link to a parent folder does not loop.
        if !seen.insert(folder.canonicalize().map_err(cannot)?) || depth > MAX_DEPTH {
            continue;
        }
        for entry in fs::read_dir(&folder).map_err(cannot)? {
            let path = entry.map_err(cannot)?.path();
            let name = path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default();
            if name.starts_with('.') {
                continue;
            }
            if path.is_dir() {
                left.push((path, depth + 1));
            } else if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("md"))
            {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Reads a regular file of reasonable size that contains UTF-8.
pub fn read_text(path: &Path) -> Result<String, Problem> {
    let problem = |location, text| Problem { location, name: String::new(), text };
    let whole = |text| problem(Location::File(display(path)), text);
    let unreadable = |error: io::Error| whole(format!("cannot be read: {}", reason(&error)));
    let metadata = fs::metadata(path).map_err(unreadable)?;
    // Reading a pipe could block forever.
    if !metadata.is_file() {
        return Err(whole("is not a regular file".to_owned()));
    }
    if metadata.len() > MAX_BYTES {
        return Err(whole(format!(
            "is too large: {} bytes; the limit is {MAX_BYTES}",
            metadata.len()
        )));
    }
    String::from_utf8(fs::read(path).map_err(unreadable)?).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let before = &error.as_bytes()[..good];
        let line_start =
            before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        let location = Location::Line {
            file: display(path),
            line: before.iter().filter(|byte| **byte == b'\n').count() + 1,
            column: String::from_utf8_lossy(&before[line_start..]).chars().count() + 1,
        };
        problem(location, "is not UTF-8".to_owned())
    })
}

/// The error's text without the number of the system error.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}

/// Detects changes of the config's files without reading them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stamps(BTreeMap<PathBuf, Option<Stamp>>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    size: u64,
    /// Modification and status change: a file that is moved over another may be older and have the
    /// same size.
    times: [i64; 4],
    file: (u64, u64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self {
            size: metadata.size(),
            times: [
                metadata.mtime(),
                metadata.mtime_nsec(),
                metadata.ctime(),
                metadata.ctime_nsec(),
            ],
            file: (metadata.dev(), metadata.ino()),
        }
    }
}

impl Stamps {
    /// The stamps of the config file and of every file that it names.
    pub fn take(config: Option<&Path>, table: &Table, base: &PathBase) -> Self {
        let prompts = prompt_files(table).map(|(_, path)| base.resolve(path));
        let both = folders(AGENTS_DIR, table).chain(folders(SKILLS_DIR, table));
        let agents = both.flat_map(|(_, path)| {
            let folder = base.resolve(path);
            list(&folder).unwrap_or_else(|_| vec![folder])
        });
        let paths = config.map(Path::to_owned).into_iter().chain(prompts).chain(agents);
        Self(
            paths
                .map(|path| {
                    let stamp = fs::metadata(&path).ok().map(|metadata| Stamp::of(&metadata));
                    (path, stamp)
                })
                .collect(),
        )
    }
}
