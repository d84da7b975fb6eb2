use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use adjutant_store::ModelLimits;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::parameters::Parameters;
use super::price::Rates;
use super::secret::KeySource;
use super::{Model, Prices, Secret, Trouble, Wire};

/// Parameters that Adjutant sets itself.
const RESERVED: &[&str] =
    &["model", "messages", "system", "tools", "temperature", "max_tokens", "max_completion_tokens"];

/// A model as the config file describes it, in `[models.NAME]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    pub wire: Wire,
    /// The base URL as the vendors' SDKs take it: OpenAI's with `/v1`, Anthropic's without.
    /// Default: the vendor's own. It may contain a key.
    pub base_url: Option<Secret>,
    /// The environment variable with the API key.
    pub api_key_env: Option<String>,
    /// The file with the API key, which is read for every call. Without either no key is sent.
    pub api_key_file: Option<PathBuf>,
    /// The model's name in requests. Default: the name of the table.
    pub model: Option<String>,
    /// The limit of one answer in tokens.
    #[serde(default = "default_max_tokens")]
    pub max_tokens: u32,
    /// The parameter for `max_tokens` on the OpenAI wire. Default: depends on the host.
    pub max_tokens_field: Option<TokenLimit>,
    pub temperature: Option<f64>,
    /// Further parameters of the request body. `stream = false` is for servers that cannot stream.
    #[serde(default)]
    pub parameters: Map<String, Value>,
    /// Further headers, which override Adjutant's own.
    #[serde(default)]
    pub headers: BTreeMap<String, Secret>,
    /// The size of the context window in tokens.
    pub context_window: Option<u32>,
    #[serde(default)]
    pub prices: Prices,
    /// The most concurrent calls of all workers together.
    pub max_concurrency: Option<u32>,
    /// The most calls of all workers together in any 60 seconds.
    pub requests_per_minute: Option<u32>,
    /// The most tokens of all workers together in any 60 seconds, prompts and answers.
    pub tokens_per_minute: Option<u32>,
    /// The models that are called instead if this one is closed or down, in this order.
    #[serde(default)]
    pub fallback: Vec<String>,
    /// A gate that is closed for longer sends calls to the fallback.
    #[serde(default = "default_fallback_after_s")]
    pub fallback_after_s: f64,
    /// A call fails if the server sends nothing for this time.
    #[serde(default = "default_idle_timeout_s")]
    pub idle_timeout_s: f64,
    /// A call fails if it is not complete after this time.
    #[serde(default = "default_timeout_s")]
    pub timeout_s: f64,
    /// The tenants whose tasks may use it; `None` is all of them.
    pub tenants: Option<Vec<String>>,
}

/// The request parameter that limits the length of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenLimit {
    MaxTokens,
    MaxCompletionTokens,
}

/// An invalid setting of a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("models.{model}.{setting}: {problem}")]
pub struct ConfigError {
    pub model: String,
    pub setting: String,
    pub problem: String,
}

fn default_max_tokens() -> u32 {
    4096
}

/// Models with extended thinking send nothing for minutes.
fn default_idle_timeout_s() -> f64 {
    300.0
}

fn default_timeout_s() -> f64 {
    1800.0
}

/// As long as a task waits for a gate in its slot.
fn default_fallback_after_s() -> f64 {
    10.0
}

impl Model {
    /// Checks the config of the model `name` and reads its key.
    pub fn new(
        name: &str,
        config: &ModelConfig,
        client: reqwest::Client,
    ) -> Result<Self, ConfigError> {
        let checked = || -> Result<Self, Problem> {
            let url = endpoint(config)?;
            Ok(Self {
                name: name.to_owned(),
                wire: config.wire,
                key: key(config)?,
                headers: headers(config)?,
                parameters: parameters(name, config, &url)?,
                rates: Rates::new(&config.prices).map_err(|which| {
                    Problem::new(
                        format!("prices.{which}"),
                        "must be a number of US dollars per million tokens",
                    )
                })?,
                context_window: config.context_window,
                limits: limits(config)?,
                fallback: config.fallback.clone(),
                fallback_after: seconds("fallback_after_s", config.fallback_after_s)?,
                idle_timeout: seconds("idle_timeout_s", config.idle_timeout_s)?,
                timeout: seconds("timeout_s", config.timeout_s)?,
                client,
                tenants: config.tenants.clone(),
                missing_usage_logged: AtomicBool::new(false),
                trouble: Trouble::default(),
                url,
            })
        };
        checked().map_err(|Problem { setting, problem }| ConfigError {
            model: name.to_owned(),
            setting,
            problem,
        })
    }
}

struct Problem {
    setting: String,
    problem: String,
}

impl Problem {
    fn new(setting: impl Into<String>, problem: impl std::fmt::Display) -> Self {
        Self { setting: setting.into(), problem: problem.to_string() }
    }
}

/// The base URL with the wire's path. Keeps the query of the base (Azure's `api-version`).
fn endpoint(config: &ModelConfig) -> Result<Url, Problem> {
    let wire = config.wire.format();
    let base = config.base_url.as_ref().map_or(wire.default_base_url(), Secret::expose);
    let mut url = Url::parse(base).map_err(|error| Problem::new("base_url", error))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(Problem::new("base_url", "must begin with http:// or https://"));
    }
    let whole = format!("{}/{}", url.path().trim_end_matches('/'), wire.path());
    url.set_path(&whole);
    Ok(url)
}

fn key(config: &ModelConfig) -> Result<Option<KeySource>, Problem> {
    let (setting, source) = match (&config.api_key_env, &config.api_key_file) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => {
            return Err(Problem::new("api_key_file", "set either this or api_key_env, not both"));
        }
        (Some(variable), None) => {
            let key = std::env::var(variable).map_err(|_| {
                Problem::new(
                    "api_key_env",
                    format!(
                        "the environment variable {variable} is not set; export it, or set api_key_file instead"
                    ),
                )
            })?;
            ("api_key_env", KeySource::Fixed(Secret::new(key.trim())))
        }
        (None, Some(path)) => ("api_key_file", KeySource::File(path.clone())),
    };
    let key = source.read().map_err(|error| Problem::new(setting, error))?;
    if key.expose().is_empty() || HeaderValue::from_str(key.expose()).is_err() {
        return Err(Problem::new(setting, "the value is empty or has characters that no key has"));
    }
    Ok(Some(source))
}

fn headers(config: &ModelConfig) -> Result<HeaderMap, Problem> {
    let mut headers = HeaderMap::new();
    for (name, value) in &config.headers {
        let setting = || format!("headers.{name}");
        let known =
            HeaderName::try_from(name.as_str()).map_err(|error| Problem::new(setting(), error))?;
        let mut value = HeaderValue::from_str(value.expose())
            .map_err(|error| Problem::new(setting(), error))?;
        value.set_sensitive(true);
        headers.insert(known, value);
    }
    Ok(headers)
}

fn parameters(name: &str, config: &ModelConfig, url: &Url) -> Result<Parameters, Problem> {
    if let Some(reserved) =
        RESERVED.iter().find(|reserved| config.parameters.contains_key(**reserved))
    {
        return Err(Problem::new(format!("parameters.{reserved}"), "is set by Adjutant"));
    }
    if config.max_tokens == 0 {
        return Err(Problem::new("max_tokens", "must be at least 1"));
    }
    if config.context_window == Some(0) {
        return Err(Problem::new("context_window", "must be at least 1"));
    }
    if config.temperature.is_some_and(|temperature| !(0.0..=2.0).contains(&temperature)) {
        return Err(Problem::new("temperature", "must be between 0 and 2"));
    }
    let host = url.host_str().unwrap_or_default();
    let token_limit = config.wire.format().token_limit(config.max_tokens_field, host);
    Ok(Parameters {
        model: config.model.clone().unwrap_or_else(|| name.to_owned()),
        max_tokens: config.max_tokens,
        token_limit,
        temperature: config.temperature,
        further: config.parameters.clone(),
    })
}

fn limits(config: &ModelConfig) -> Result<ModelLimits, Problem> {
    let limits = [
        ("max_concurrency", config.max_concurrency),
        ("requests_per_minute", config.requests_per_minute),
        ("tokens_per_minute", config.tokens_per_minute),
    ];
    if let Some((setting, _)) = limits.iter().find(|(_, limit)| *limit == Some(0)) {
        return Err(Problem::new(*setting, "must be at least 1"));
    }
    Ok(ModelLimits {
        requests_per_minute: config.requests_per_minute,
        tokens_per_minute: config.tokens_per_minute,
        max_concurrency: config.max_concurrency,
    })
}

fn seconds(setting: &str, seconds: f64) -> Result<Duration, Problem> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        Ok(_) | Err(_) => Err(Problem::new(setting, "must be a number of seconds above 0")),
    }
}
