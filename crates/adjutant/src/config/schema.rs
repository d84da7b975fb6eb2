//! The list of all settings. Names, types, environment variables, suggestions and the test of the
//! example file come from this list.
//!
//! Each section of the config declares its settings beside the code that reads them. A new setting
//! is a line in its section's `SETTINGS`, a field of the section's struct, and its description in
//! `adjutant.example.toml`.

use super::{GENERAL, webhooks};
use super::{agents, dialects, free_form, inheritance, limits, models, server, skills, tools};

/// One setting.
pub struct Setting {
    /// Its dotted name; `*` stands for a name that the operator chooses.
    pub name: &'static str,
    pub kind: Kind,
}

/// The type of a setting, and the range of its values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// A string that is not empty.
    Text,
    /// A string that starts with http:// or https://.
    Url,
    /// A path, relative to the config file.
    Path,
    /// One path or a list of paths.
    PathList,
    OneOf(&'static [&'static str]),
    Integer {
        min: i64,
        max: i64,
    },
    Number {
        min: f64,
        max: f64,
    },
    /// A number above zero: a time in seconds, a rate, or an amount of money.
    PositiveNumber,
    Boolean,
    TextList,
    /// A table of strings.
    TextTable,
    /// A table of strings, each of which may also be `{ env = "NAME" }`.
    SecretTable,
    /// Any TOML table.
    Table,
}

pub const fn at_least(min: i64) -> Kind {
    Kind::Integer { min, max: i32::MAX as i64 }
}

/// The timeout of a tool call: at most a day.
pub const CALL_SECONDS: Kind = Kind::Number { min: 0.001, max: 86_400.0 };

macro_rules! settings {
    ($($name:expr => $kind:expr,)*) => {
        &[$($crate::config::schema::Setting { name: $name, kind: $kind },)*]
    };
}
pub(super) use settings;

const SECTIONS: [&[Setting]; 11] = [
    GENERAL,
    models::SETTINGS,
    agents::SETTINGS,
    inheritance::OF_AGENTS,
    skills::SETTINGS,
    free_form::SETTINGS,
    tools::SETTINGS,
    limits::SETTINGS,
    server::SETTINGS,
    webhooks::SETTINGS,
    super::LEASE,
];

pub fn all_settings() -> impl Iterator<Item = &'static Setting> {
    SECTIONS.into_iter().flatten().chain(dialects::settings())
}

/// The kind of the setting with this name, which may contain `*`.
pub fn kind_of(pattern: &str) -> Option<Kind> {
    all_settings().find(|setting| setting.name == pattern).map(|setting| setting.kind)
}

/// The names that the table `pattern` may contain, `*` for any name. The empty pattern is the whole
/// file.
pub fn names_in(pattern: &str) -> Vec<&'static str> {
    let mut names: Vec<&str> = all_settings()
        .filter_map(|setting| match pattern {
            "" => Some(setting.name),
            _ => setting.name.strip_prefix(pattern)?.strip_prefix('.'),
        })
        .filter_map(|rest| rest.split('.').next())
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The dotted name of `name` in `table`, quoted as TOML requires.
pub fn dotted(table: &str, name: &str) -> String {
    let bare =
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let name = if bare { name.to_owned() } else { format!("{name:?}") };
    if table.is_empty() { name } else { format!("{table}.{name}") }
}
