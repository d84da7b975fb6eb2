//! Who publishes which agents, and whether the config's cap is the fleet's.

use adjutant_store::{PublishedConfig, Store};
use chrono::Utc;

use super::finding::Finding;
use crate::adopt_cap;
use crate::config::Config;

pub async fn check(store: &Store, config: &Config) -> adjutant_store::Result<Vec<Finding>> {
    let configs = store.published_configs().await?;
    let mut findings: Vec<Finding> = configs.iter().flat_map(of_config).collect();
    if findings.is_empty() {
        findings.push(Finding::ok("agents", "no config publishes agents"));
    }
    let difference = adopt_cap::difference(config, store.slots().await?.cap);
    findings.extend(difference.map(|text| {
        Finding::warning("limits.cap", text, "only the first config that has it sets the cap")
    }));
    Ok(findings)
}

fn of_config(config: &PublishedConfig) -> Vec<Finding> {
    let PublishedConfig { name, agents, processes, .. } = config;
    let number = match agents.as_slice() {
        [agent] => format!("1 agent ({agent})"),
        agents => format!("{} agents ({})", agents.len(), agents.join(", ")),
    };
    let (process, seen) = last_seen(config);
    let found = match processes {
        0 => format!(
            "config {name:?}: {number}, published by no process that runs now; {process}, {seen}"
        ),
        1 => format!("config {name:?}: {number}, published by {process}, {seen}"),
        more => format!(
            "config {name:?}: {number}, published by {more} processes, last by {process}, {seen}"
        ),
    };
    let mut findings = vec![Finding::ok("agents", found)];
    if !config.differing.is_empty() {
        let text = format!(
            "config {name:?}: processes with different definitions of {}; the newest is in effect",
            config.differing.join(", ")
        );
        let advice = "normal during a deploy; else give each config its own `name`";
        findings.push(Finding::warning("agents", text, advice));
    }
    findings
}

fn last_seen(config: &PublishedConfig) -> (String, String) {
    match (&config.last_process, config.last_seen_at) {
        (Some(process), Some(at)) => {
            let age = Utc::now().signed_duration_since(at).num_seconds().max(0);
            (format!("process {process}"), format!("last seen {age} s ago"))
        }
        (_, _) => ("its processes".to_owned(), "not seen for 7 days".to_owned()),
    }
}
