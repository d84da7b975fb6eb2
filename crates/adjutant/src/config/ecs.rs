//! What the operator decides for the dialect `ecs`.

use adjutant_agent::InheritancePolicy;
use adjutant_agent::dialects::ecs::Settings;

use super::problem::Findings;
use super::tree::{Node, Table};
use super::understand::section;

pub fn understand(table: &Table) -> Settings {
    let settings = section(table, "dialects.ecs");
    Settings {
        default_timeout: settings.and_then(|ecs| ecs.get("default_timeout")?.as_number()),
        inheritance: settings.and_then(|ecs| inheritance(ecs.get("inheritance")?)).unwrap_or_default(),
    }
}

/// The source has one cap for all of a process, as we have one for all of a fleet: said twice, it must be the same.
pub fn cap(table: &Table, findings: &mut Findings) -> Option<i32> {
    let node = section(table, "dialects.ecs")?.get("max_background_concurrency")?;
    let cap = node.as_integer()?;
    let other = section(table, "limits").and_then(|limits| limits.get("cap")?.as_integer());
    if other.is_some_and(|other| other != cap) {
        let text =
            format!("is {cap}, and limits.cap is {}: there is one cap; say it once", other.unwrap_or(cap));
        findings.error(&node.place, "dialects.ecs.max_background_concurrency", text);
    }
    i32::try_from(cap).ok()
}

/// A table that has been checked.
pub fn inheritance(node: &Node) -> Option<InheritancePolicy> {
    serde_json::from_value(node.to_json()).ok()
}
