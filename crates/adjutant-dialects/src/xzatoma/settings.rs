use adjutant_store::Quota;
use serde::Deserialize;

use crate::{Setting, SettingKind, SettingRole};

/// The section `[dialects.xzatoma]` of the config file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// The greatest depth of a subagent, 1 to 10, bounded by `limits.max_depth`.
    pub max_depth: i32,
    /// For calls without `max_turns`, 1 to 100.
    pub default_max_turns: i32,
    /// The most bytes of an output in an answer, at least 1024.
    pub output_max_size: usize,
    /// Whether the events of subagents are logged.
    pub telemetry_enabled: bool,
    #[serde(flatten)]
    pub quota: Quota,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_depth: 3,
            default_max_turns: 10,
            output_max_size: 4_096,
            telemetry_enabled: true,
            quota: Quota::default(),
        }
    }
}

const ANY: i64 = i32::MAX as i64;

pub(crate) const SETTINGS: &[Setting] = &[
    Setting::new("dialects.xzatoma.max_depth", SettingKind::Whole { least: 1, most: 10 }),
    Setting::new("dialects.xzatoma.default_max_turns", SettingKind::Whole { least: 1, most: 100 }),
    Setting::new("dialects.xzatoma.output_max_size", SettingKind::Whole { least: 1024, most: ANY }),
    Setting::new("dialects.xzatoma.telemetry_enabled", SettingKind::Flag),
    Setting::new("dialects.xzatoma.persistence_enabled", SettingKind::Flag)
        .with_role(SettingRole::AlwaysTrue("every conversation is stored")),
    Setting::new("dialects.xzatoma.max_executions", SettingKind::Whole { least: 1, most: ANY }),
    Setting::new(
        "dialects.xzatoma.max_total_tokens",
        SettingKind::Whole { least: 1, most: i64::MAX },
    ),
    Setting::new("dialects.xzatoma.max_total_time", SettingKind::Positive),
];
