//! `[dialects]`: what the operator says about the tools of other sources.

use std::time::Duration;

use adjutant_agent::dialects::xzatoma::{Quota, Settings};
use adjutant_server::Dialects;

use super::ecs;
use super::problem::Findings;
use super::tree::{Node, Table, Value};
use super::understand::section;

pub fn understand(table: &Table, findings: &mut Findings) -> Dialects {
    let default = Dialects::default();
    let longest = section(table, "dialects").and_then(|dialects| dialects.get("longest_wait_s")?.as_number());
    let longest = longest.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    Dialects {
        longest_wait: longest.unwrap_or(default.longest_wait),
        ecs: ecs::understand(table),
        xzatoma: xzatoma(table, findings),
    }
}

fn xzatoma(table: &Table, findings: &mut Findings) -> Settings {
    let default = Settings::default();
    let node = |name: &str| section(table, "dialects.xzatoma")?.get(name);
    let whole = |name: &str| node(name).and_then(Node::as_integer);
    let small = |name: &str| whole(name).and_then(|number| i32::try_from(number).ok());
    let is_off = |name: &str| node(name).is_some_and(|node| node.value == Value::Flag(false));
    if let Some(node) = node("persistence_enabled").filter(|node| node.value == Value::Flag(false)) {
        let text = "changes nothing: every conversation is stored";
        findings.warning(&node.place, "dialects.xzatoma.persistence_enabled", text);
    }
    Settings {
        max_depth: small("max_depth").unwrap_or(default.max_depth),
        default_max_turns: small("default_max_turns").unwrap_or(default.default_max_turns),
        output_max_size: whole("output_max_size")
            .and_then(|bytes| usize::try_from(bytes).ok())
            .unwrap_or(default.output_max_size),
        telemetry_enabled: default.telemetry_enabled && !is_off("telemetry_enabled"),
        quota: Quota {
            max_executions: whole("max_executions"),
            max_total_tokens: whole("max_total_tokens"),
            max_total_time: node("max_total_time").and_then(Node::as_number),
        },
    }
}
