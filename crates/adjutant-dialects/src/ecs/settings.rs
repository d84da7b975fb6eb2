use adjutant_agent::InheritancePolicy;
use serde::Deserialize;

use crate::{Setting, SettingKind, SettingRole};

/// The section `[dialects.ecs]` of the config file.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// The time limit, in seconds, of tasks whose calls have no timeout. `None` is the operator's.
    pub default_timeout: Option<f64>,
    /// The policy of agents that have none of their own.
    pub inheritance: InheritancePolicy,
}

pub(crate) const SETTINGS: &[Setting] = &[
    Setting::new("dialects.ecs.default_timeout", SettingKind::Positive),
    Setting::new(
        "dialects.ecs.max_background_concurrency",
        SettingKind::Whole { least: 0, most: 10_000 },
    )
    .with_role(SettingRole::FleetCap),
    Setting::new("dialects.ecs.inheritance.enabled", SettingKind::Flag),
    Setting::new("dialects.ecs.inheritance.inherit_system_prompt", SettingKind::Flag),
    Setting::new("dialects.ecs.inheritance.inherit_tools", SettingKind::Texts),
    Setting::new("dialects.ecs.inheritance.inherit_permissions", SettingKind::Flag),
    Setting::new(
        "dialects.ecs.inheritance.tool_conflict_policy",
        SettingKind::Word(&["skip", "error", "override"]),
    ),
    Setting::new(
        "dialects.ecs.inheritance.missing_skill_policy",
        SettingKind::Word(&["warn", "error"]),
    ),
];
