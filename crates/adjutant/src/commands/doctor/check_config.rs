use std::path::Path;

use super::finding::Finding;
use crate::commands::config::missing_key;
use crate::config::{Config, Loaded, Problem, Role};

pub fn check(path: Option<&Path>) -> (Config, Vec<Finding>) {
    let Loaded { config, errors } = Loaded::from_process(path, Role::Worker);
    let mut findings: Vec<Finding> = errors
        .iter()
        .map(|error| {
            Finding::wrong(
                "config",
                error.to_string(),
                "`adjutant config example` shows every setting",
            )
        })
        .collect();
    let warnings = config.warnings.iter();
    findings.extend(warnings.map(|warning| {
        Finding::warning("config", warning.to_string(), "`adjutant config check` shows details")
    }));
    match &config.path {
        None => findings.push(Finding::warning(
            "config",
            "no ./adjutant.toml, and ADJUTANT_CONFIG is not set",
            "create one with `adjutant config example > adjutant.toml`, or pass --config",
        )),
        Some(path) if findings.is_empty() => {
            findings.push(Finding::ok("config", path.display().to_string()))
        }
        Some(_) => {}
    }
    findings.extend(models(&config));
    findings.extend(machine(&config, &errors));
    (config, findings)
}

/// What workers need besides the keys of models, which have findings of their own.
fn machine(config: &Config, errors: &[Problem]) -> Vec<Finding> {
    if !errors.is_empty() {
        return Vec::new();
    }
    let missing = config.missing_here().into_iter();
    let missing = missing.filter(|problem| !problem.name.ends_with(".api_key_env"));
    let finding = |problem: Problem| {
        Finding::wrong("config", problem.to_string(), "set it right where workers start")
    };
    missing.map(finding).collect()
}

fn models(config: &Config) -> Vec<Finding> {
    if config.models.is_empty() {
        let advice = "add a [models.NAME] table; without a model every task fails";
        return vec![Finding::warning("models", "the config has no models", advice)];
    }
    let finding = |(name, model): (&String, &_)| match missing_key(model) {
        None => Finding::ok("models", format!("{name}: its API key is set, or it needs none")),
        Some(variable) => Finding::wrong(
            "models",
            format!("{name}: {variable} is not set here"),
            format!("set {variable} where workers start"),
        ),
    };
    config.models.iter().map(finding).collect()
}
