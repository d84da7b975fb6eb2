use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::FOLDER_SETTINGS;

/// The longest that a call may take: clients and proxies give up after a minute.
pub const LONGEST_WAIT: Duration = Duration::from_secs(45);

/// A setting of the config file: its dotted name and its type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    pub name: &'static str,
    pub kind: SettingKind,
    pub role: SettingRole,
}

/// What a setting means outside of its dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingRole {
    Own,
    /// The source's name for `limits.cap`.
    FleetCap,
    /// A flag whose `false` has no effect, and why.
    AlwaysTrue(&'static str),
}

/// The type of a setting and its range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SettingKind {
    Whole {
        least: i64,
        most: i64,
    },
    Number {
        least: f64,
        most: f64,
    },
    /// A number above zero.
    Positive,
    Flag,
    Texts,
    Word(&'static [&'static str]),
}

impl Setting {
    pub(crate) const fn new(name: &'static str, kind: SettingKind) -> Self {
        Self { name, kind, role: SettingRole::Own }
    }

    pub(crate) const fn with_role(self, role: SettingRole) -> Self {
        Self { role, ..self }
    }
}

adjutant_agent::word_enum! {
    /// What a client that cancels a running call of a blocking dialect does to the task of the
    /// call.
    #[derive(Default)]
    OnClientCancel {
        /// The task and its tree are cancelled; their text so far is kept.
        #[default]
        Cancel = "cancel",
        /// The task continues, and its result can be read later.
        Continue = "continue",
    }
}

const SHARED: &[Setting] = &[
    Setting::new("dialects.longest_wait_s", SettingKind::Number { least: 0.1, most: 45.0 }),
    Setting::new("dialects.on_client_cancel", SettingKind::Word(OnClientCancel::WORDS)),
];

/// Every setting of the section `[dialects]`.
pub fn settings() -> impl Iterator<Item = Setting> {
    SHARED.iter().chain(FOLDER_SETTINGS.iter().copied().flatten()).copied()
}

/// The settings of a dialect that has none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct NoSettings {}

pub(crate) fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let seconds = f64::deserialize(deserializer)?;
    Duration::try_from_secs_f64(seconds).map_err(serde::de::Error::custom)
}
