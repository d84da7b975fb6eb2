//! What a config needs of the machine that runs its tasks: API keys, other environment variables,
//! folders. A config may be checked on a machine that does not have them.

use adjutant_worker::tools;

use super::Config;
use super::problem::{ConfigError, Location, Problem};
use super::schema::dotted;
use super::validate::locate;

impl Config {
    /// What workers need and this machine does not have. The config has no errors.
    pub fn missing_here(&self) -> Vec<Problem> {
        let models = self.models.iter().filter_map(|(name, model)| {
            let error = model.check_with_key(name).err()?;
            Some((format!("{}.{}", dotted("models", name), error.setting), error.problem))
        });
        let tools = tools::check(&self.tools);
        let tools = tools.into_iter().map(|error| (format!("tools.{}", error.setting), error.why));
        let problem = |(name, text): (String, String)| Problem {
            location: locate(&self.source, &name),
            name,
            text,
        };
        models.chain(tools).map(problem).collect()
    }

    /// Where a setting is written, or else the nearest table around it.
    pub fn locate(&self, name: &str) -> Location {
        locate(&self.source, name)
    }

    /// Refuses the config if this machine cannot run its tasks.
    pub fn check_machine(&self) -> Result<(), ConfigError> {
        let missing = self.missing_here();
        if missing.is_empty() { Ok(()) } else { Err(ConfigError(missing)) }
    }
}
