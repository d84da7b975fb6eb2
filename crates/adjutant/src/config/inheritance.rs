//! What agents inherit from their session: the table `[agents.NAME.inheritance]`.

use adjutant_agent::InheritancePolicy;

use super::schema::{Kind, Setting, settings};
use super::tree::Node;

pub const OF_AGENTS: &[Setting] = settings! {
    "agents.*.inheritance.enabled" => Kind::Boolean,
    "agents.*.inheritance.inherit_system_prompt" => Kind::Boolean,
    "agents.*.inheritance.inherit_tools" => Kind::TextList,
    "agents.*.inheritance.inherit_permissions" => Kind::Boolean,
    "agents.*.inheritance.tool_conflict_policy" => Kind::OneOf(&["skip", "error", "override"]),
    "agents.*.inheritance.missing_skill_policy" => Kind::OneOf(&["warn", "error"]),
};

/// Reads a table that has been checked.
pub fn read(node: &Node) -> Option<InheritancePolicy> {
    serde_json::from_value(node.to_json()).ok()
}
