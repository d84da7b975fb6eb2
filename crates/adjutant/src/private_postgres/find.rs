//! Finds a PostgreSQL server: an installed one, else one downloaded with npm.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{anyhow, bail};

use super::npm;
use super::run_as::RunAs;

/// The folder of the server's programs, which excludes all others; or `npm`, which excludes
/// installed ones.
pub const BIN: &str = "ADJUTANT_POSTGRES_BIN";

const MIN_VERSION: u32 = 15;

/// Where packages install a server that is not on the PATH; `*` stands for the version.
const FOLDERS: [&str; 6] = [
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
    "/Library/PostgreSQL/*/bin",
];

const INSTALL: &str = "  Debian, Ubuntu:  sudo apt-get install -y postgresql
  Fedora:          sudo dnf install -y postgresql-server
  macOS:           brew install postgresql@17";

/// A folder that has `postgres` and `initdb` of one version.
#[derive(Debug, Clone)]
pub struct Server {
    pub bin: PathBuf,
    pub version: String,
    pub major: u32,
}

impl Server {
    pub fn at(bin: &Path) -> Option<Self> {
        if !bin.join("initdb").is_file() {
            return None;
        }
        let output = Command::new(bin.join("postgres"))
            .arg("--version")
            .stdin(Stdio::null())
            .output()
            .ok()?;
        let output = String::from_utf8_lossy(&output.stdout).into_owned();
        let (version, major) = parse_version(&output)?;
        (major >= MIN_VERSION).then(|| Self { bin: bin.into(), version, major })
    }

    pub fn program(&self, name: &str) -> PathBuf {
        self.bin.join(name)
    }
}

/// The newest server, or one that fits data of the major version `data`.
pub async fn server(run_as: &RunAs, data: Option<u32>) -> anyhow::Result<Server> {
    let chosen = std::env::var_os(BIN).filter(|chosen| !chosen.is_empty());
    let found = match &chosen {
        Some(chosen) if chosen == "npm" => Vec::new(),
        Some(folder) => {
            let folder = PathBuf::from(folder);
            let Some(server) = Server::at(&folder) else {
                bail!(
                    "{BIN} is {}, which does not contain PostgreSQL {MIN_VERSION} or newer (postgres and initdb). Set it to \
                     the folder that does, or unset it to search the usual folders.",
                    folder.display()
                );
            };
            vec![server]
        }
        None => installed(),
    };
    if let Some(server) = best(&found, data) {
        return Ok(server.clone());
    }
    let npm_fits = data.is_none_or(|major| major == npm::MAJOR);
    let npm_asked = chosen.is_none_or(|chosen| chosen == "npm");
    if npm_fits && npm_asked {
        let why = match npm::server(run_as).await {
            Ok(Some(server)) => return Ok(server),
            Ok(None) => "npm, which could download it, is not installed either".to_owned(),
            Err(error) => format!("the download with npm failed ({error:#})"),
        };
        if data.is_none() {
            bail!(
                "PostgreSQL {MIN_VERSION} or newer is not installed, and {why}. Install it as shown below, set {BIN} to \
                 the folder of its programs, or use a running server with --database-url:\n{INSTALL}"
            );
        }
    }
    Err(other_version(&found, data))
}

fn other_version(found: &[Server], data: Option<u32>) -> anyhow::Error {
    let data = data.map_or_else(|| "?".into(), |major| major.to_string());
    let found: Vec<String> =
        found.iter().map(|s| format!("{} in {}", s.version, s.bin.display())).collect();
    let found = if found.is_empty() { "none".into() } else { found.join(", ") };
    anyhow!(
        "The data was created by PostgreSQL {data}, which is not installed (found: {found}). Nothing was changed. \
         Install PostgreSQL {data}, or choose another directory with --data-dir and move the data with pg_dump."
    )
}

/// The newest; among equals the first.
fn best(found: &[Server], data: Option<u32>) -> Option<&Server> {
    found
        .iter()
        .filter(|server| data.is_none_or(|major| server.major == major))
        .rev()
        .max_by_key(|server| server.major)
}

fn installed() -> Vec<Server> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> =
        std::env::split_paths(&path).filter(|folder| folder.is_absolute()).collect();
    folders.extend(FOLDERS.iter().flat_map(|pattern| expand(pattern)));
    folders.iter().filter_map(|folder| Server::at(folder)).collect()
}

/// The folders that match a pattern with one `*`.
fn expand(pattern: &str) -> Vec<PathBuf> {
    let Some((before, after)) = pattern.split_once('*') else { return vec![pattern.into()] };
    let (parent, prefix) = before.rsplit_once('/').unwrap_or(("", before));
    let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
    let mut names: Vec<OsString> = entries.flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    names
        .iter()
        .filter_map(|name| name.to_str())
        .filter(|name| name.starts_with(prefix))
        .map(|name| PathBuf::from(format!("{parent}/{name}{after}")))
        .filter(|folder| folder.is_dir())
        .collect()
}

/// `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)` is 15.18, major 15; `18beta1` has major
/// 18.
fn parse_version(output: &str) -> Option<(String, u32)> {
    let version = output.split_once("(PostgreSQL)")?.1.split_whitespace().next()?;
    let digits: String = version.chars().take_while(char::is_ascii_digit).collect();
    Some((version.into(), digits.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers() -> Vec<Server> {
        [("/a", 15), ("/b", 17), ("/c", 17), ("/d", 16)]
            .map(|(bin, major)| Server { bin: bin.into(), version: major.to_string(), major })
            .to_vec()
    }

    #[test]
    fn the_version_is_parsed_from_the_output_of_the_server() {
        let debian = parse_version("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n");
        assert_eq!(debian, Some(("15.18".into(), 15)));
        assert_eq!(parse_version("postgres (PostgreSQL) 18beta1\n"), Some(("18beta1".into(), 18)));
        assert_eq!(parse_version("sh: not found\n"), None);
    }

    #[test]
    fn new_data_uses_the_first_of_the_newest_servers() {
        assert_eq!(best(&servers(), None).map(|server| server.bin.clone()), Some("/b".into()));
    }

    #[test]
    fn existing_data_uses_the_server_of_its_version() {
        assert_eq!(best(&servers(), Some(16)).map(|server| server.bin.clone()), Some("/d".into()));
        assert!(best(&servers(), Some(14)).is_none());
    }
}
