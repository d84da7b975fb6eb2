//! The checks of a config as a whole, for all commands that read it: what each setting allows, but
//! no worker can start with or no task can run with.

use super::Config;
use super::agents::Agent;
use super::problem::{Findings, Location};
use super::schema::dotted;
use super::tree::Table;

pub fn validate(table: &Table, config: &Config, findings: &mut Findings) {
    check_tools(table, config, findings);
    check_models(table, config, findings);
    check_default_model(table, config, findings);
    for agent in config.agents.values() {
        check_tenants(config, agent, findings);
    }
}

fn check_tools(table: &Table, config: &Config, findings: &mut Findings) {
    for error in adjutant_worker::tools::check(&config.tools.without_environment()) {
        let name = format!("tools.{}", error.setting);
        report(table, &name, error.why, findings);
    }
}

fn check_models(table: &Table, config: &Config, findings: &mut Findings) {
    for (name, model) in &config.models {
        if let Err(error) = model.check(name) {
            let name = format!("{}.{}", dotted("models", name), error.setting);
            report(table, &name, error.problem, findings);
        }
    }
}

fn report(table: &Table, name: &str, why: String, findings: &mut Findings) {
    // The check of the setting itself has said why, with quotes around a name that needs them.
    if !findings.errors.iter().any(|known| known.name.replace('"', "") == name) {
        findings.unusable(&locate(table, name), name, why);
    }
}

/// Servers choose the model of a task, and workers have the models.
fn check_default_model(table: &Table, config: &Config, findings: &mut Findings) {
    let names = &config.model_names;
    if names.default.is_some() || table.contains_key("default_model") {
        return;
    }
    let without = config.agents.values().filter(|agent| agent.definition.config.model.is_empty());
    let without: Vec<&Agent> = without.collect();
    let (who, location) = match without.as_slice() {
        [] if config.free_form.is_some() => {
            ("free-form agents", locate(table, "free_form.enabled"))
        }
        [] => return,
        [agent, ..] => (agent.definition.name.as_str(), agent.source.clone()),
    };
    match names.models.first() {
        None => {
            let text = format!("is required: the tasks of {who} need a model; add [models.NAME]");
            findings.unusable(&location, "models", text);
        }
        Some(first) => {
            let text = format!(
                "is required, because there are {} models and {who} names none: set \
                 default_model = {first:?}, or the model of each agent",
                names.models.len()
            );
            findings.error(&location, "default_model", text);
        }
    }
}

/// An agent and its model must have a tenant in common.
fn check_tenants(config: &Config, agent: &Agent, findings: &mut Findings) {
    let definition = &agent.definition;
    let model = Some(&definition.config.model).filter(|model| !model.is_empty());
    let Some(model) = model.or(config.model_names.default.as_ref()) else { return };
    let of_model = config.models.get(model).and_then(|model| model.tenants.as_ref());
    if let (Some(of_agent), Some(of_model)) = (&definition.tenants, of_model)
        && !of_agent.iter().any(|tenant| of_model.contains(tenant))
    {
        let name = dotted(&dotted("agents", &definition.name), "tenants");
        let text = format!(
            "has no tenant that may use its model {model}, which is for {}; add one of them",
            of_model.join(", ")
        );
        findings.error(&agent.source, name, text);
    }
}

/// Where a setting is written, or else the nearest table around it.
pub fn locate(table: &Table, name: &str) -> Location {
    let mut found = Location::File("the config".into());
    let (mut table, mut rest) = (table, name);
    loop {
        // A name in quotes, or one with dots, is the longest one that fits.
        let fits = |key: &&String| {
            let after = rest.strip_prefix(key.as_str());
            let quoted = format!("{key:?}");
            let after = after.or_else(|| rest.strip_prefix(quoted.as_str()));
            after.is_some_and(|after| after.is_empty() || after.starts_with('.'))
        };
        let Some((key, node)) =
            table.iter().filter(|(key, _)| fits(key)).max_by_key(|(key, _)| key.len())
        else {
            return found;
        };
        found = node.key.clone();
        let quoted = format!("{key:?}");
        let after = rest.strip_prefix(key.as_str()).or_else(|| rest.strip_prefix(quoted.as_str()));
        let Some(below) = after.and_then(|after| after.strip_prefix('.')) else {
            let is_table = node.as_table().is_some();
            return if is_table { found } else { node.location.clone() };
        };
        match node.as_table() {
            Some(next) => (table, rest) = (next, below),
            None => return found,
        }
    }
}
