//! Every setting as an environment variable: `ADJUTANT_` and its dotted name in capitals, with `_`
//! for every dot and dash (`__` is read as `_`). `limits.cap` is `ADJUTANT_LIMITS_CAP`,
//! `models.main.base_url` is `ADJUTANT_MODELS_MAIN_BASE_URL`. Lists are separated by commas or
//! written as TOML, tables are written as TOML: `ADJUTANT_MODEL_ALIASES={ sonnet = "main" }`. A
//! variable overrides the file; an empty variable is ignored.

use std::sync::Arc;

use super::problem::{Findings, Location};
use super::schema::all_settings;
use super::suggest::nearest;
use super::tree::{Node, Table, Value};

const PREFIX: &str = "ADJUTANT_";

/// Variables that Adjutant reads but that are neither settings nor flags.
const OTHER_VARIABLES: [&str; 6] = [
    "ADJUTANT_CONFIG",
    "ADJUTANT_DRIVER_SECONDS",
    "ADJUTANT_FAULT",
    "ADJUTANT_POSTGRES_BIN",
    "ADJUTANT_POSTGRES_RUN_AS",
    crate::running::VARIABLE,
];

/// The prefix of variables that only the tests read.
const TEST_PREFIX: &str = "ADJUTANT_TEST_";

/// The environment at the start of the process; a reload uses the same.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    pub variables: Vec<(String, String)>,
    /// The variables that command-line flags read.
    pub flags: Vec<String>,
}

impl Environment {
    pub fn from_process(flags: Vec<String>) -> Self {
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Self { variables, flags }
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        let (_, value) = self.variables.iter().find(|(variable, _)| variable == name)?;
        Some(value.as_str()).filter(|value| !value.is_empty())
    }

    /// Overrides the file's settings with the variables, and warns of unknown variables.
    pub fn overlay(&self, table: &mut Table, findings: &mut Findings) {
        let mut unknown = Vec::new();
        for (name, value) in &self.variables {
            let Some(rest) = name.strip_prefix(PREFIX).filter(|_| !value.is_empty()) else {
                continue;
            };
            match find_setting(&squeeze(rest), table) {
                Some(path) => insert(table, &path, name, value),
                None if self.is_known_variable(name) => {}
                None => unknown.push(name),
            }
        }
        for name in
            unknown.into_iter().filter(|name| !table.values().any(|node| node.mentions(name)))
        {
            let candidates = self.candidates(table);
            let rest = name.strip_prefix(PREFIX).unwrap_or(name);
            let meant =
                match nearest(rest, candidates.iter().filter_map(|name| name.strip_prefix(PREFIX)))
                {
                    Some(near) => format!("did you mean {PREFIX}{near}?"),
                    None => "`adjutant config example` lists every setting".to_owned(),
                };
            findings.warning(
                &Location::Variable(name.as_str().into()),
                "",
                format!("unknown variable; {meant}"),
            );
        }
    }

    fn is_known_variable(&self, name: &str) -> bool {
        OTHER_VARIABLES.contains(&name)
            || name.starts_with(TEST_PREFIX)
            || self.flags.iter().any(|flag| flag == name)
    }

    /// The variables that exist, given the names of models, agents and tools in the config.
    fn candidates(&self, table: &Table) -> Vec<String> {
        let mut all: Vec<String> = OTHER_VARIABLES
            .iter()
            .map(|name| (*name).to_owned())
            .chain(self.flags.iter().cloned())
            .collect();
        for setting in all_settings() {
            match setting.name.split_once(".*.") {
                None => all.push(format!("{PREFIX}{}", capitals(setting.name))),
                Some((section, last)) => all.extend(names_below(table, section).map(|name| {
                    format!("{PREFIX}{}", capitals(&format!("{section}.{name}.{last}")))
                })),
            }
        }
        all
    }
}

fn capitals(name: &str) -> String {
    name.to_ascii_uppercase().replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}

fn squeeze(name: &str) -> String {
    let mut squeezed = name.to_owned();
    while squeezed.contains("__") {
        squeezed = squeezed.replace("__", "_");
    }
    squeezed
}

fn names_below<'a>(table: &'a Table, section: &str) -> impl Iterator<Item = &'a str> {
    let mut here = Some(table);
    for part in section.split('.') {
        here = here.and_then(|table| table.get(part)).and_then(Node::as_table);
    }
    here.into_iter().flat_map(|table| table.keys().map(String::as_str))
}

/// The path of the setting that a variable's name, without its prefix, stands for.
fn find_setting(variable: &str, table: &Table) -> Option<Vec<String>> {
    let plain = all_settings()
        .find(|setting| !setting.name.contains('*') && capitals(setting.name) == variable);
    if let Some(setting) = plain {
        return Some(setting.name.split('.').map(str::to_owned).collect());
    }
    all_settings()
        .filter_map(|setting| {
            let (section, last) = setting.name.split_once(".*.")?;
            let rest = variable.strip_prefix(&capitals(section))?.strip_prefix('_')?;
            let chosen = rest.strip_suffix(&capitals(last))?.strip_suffix('_')?;
            if chosen.is_empty() {
                return None;
            }
            let of_file =
                names_below(table, section).find(|name| squeeze(&capitals(name)) == chosen);
            let name = of_file.map_or_else(|| chosen.to_ascii_lowercase(), str::to_owned);
            let path =
                section.split('.').chain([name.as_str()]).chain(last.split('.')).map(str::to_owned);
            // MODELS_A_MAX_TOKENS is ambiguous: a name in the file decides, else the longest
            // setting.
            Some(((of_file.is_some(), last.len()), path.collect()))
        })
        .max()
        .map(|(_, path)| path)
}

fn insert(table: &mut Table, path: &[String], variable: &str, value: &str) {
    let location = Location::Variable(Arc::from(variable));
    let node = |value| Node { key: location.clone(), location: location.clone(), value };
    let Some((last, above)) = path.split_last() else { return };
    let mut here = table;
    for part in above {
        let entry = here.entry(part.clone()).or_insert_with(|| node(Value::Table(Table::new())));
        // If it is not a table, `check` reports the file's value.
        let Value::Table(below) = &mut entry.value else { return };
        here = below;
    }
    here.insert(last.clone(), node(Value::Raw(value.to_owned())));
}
