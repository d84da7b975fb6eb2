use std::path::Path;

use super::finding::Finding;
use crate::commands::config::missing_key;
use crate::config::{Config, Loaded};

pub fn look(path: Option<&Path>) -> Vec<Finding> {
    let Loaded { config, errors } = Loaded::of_process(path);
    let mut findings: Vec<Finding> = errors
        .iter()
        .map(|error| {
            Finding::wrong("config", error.to_string(), "`adjutant config example` shows every setting")
        })
        .collect();
    let warnings = config.warnings.iter();
    findings.extend(
        warnings.map(|warning| {
            Finding::warning("config", warning.to_string(), "`adjutant config check` says more")
        }),
    );
    match &config.path {
        None => findings.push(Finding::warning(
            "config",
            "there is no adjutant.toml here, and ADJUTANT_CONFIG names none",
            "`adjutant config example > adjutant.toml`, or --config FILE",
        )),
        Some(path) if findings.is_empty() => findings.push(Finding::ok("config", path.display().to_string())),
        Some(_) => {}
    }
    findings.extend(models(&config));
    findings
}

fn models(config: &Config) -> Vec<Finding> {
    if config.models.is_empty() {
        let advice = "name one under [models.NAME]; until then every task fails";
        return vec![Finding::warning("models", "the config has none", advice)];
    }
    let finding = |(name, model): (&String, &_)| match missing_key(model) {
        None => Finding::ok("models", format!("{name}: its key is there, or it needs none")),
        Some(variable) => Finding::wrong(
            "models",
            format!("{name}: {variable} is not in the environment"),
            format!("export {variable}=... where workers start; or is it there, and only not here?"),
        ),
    };
    config.models.iter().map(finding).collect()
}
