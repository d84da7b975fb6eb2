//! What `adjutant config check` finds out by connecting: tools of MCP servers, answers of models,
//! the cap of the fleet.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use adjutant_agent::{Message, Request};
use adjutant_store::Store;
use adjutant_worker::model::{Model, ModelConfig, http_client};
use adjutant_worker::tools::{McpConfig, agent_names, list_tools};
use clap::Args;
use futures::future::join_all;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::adopt_cap;
use crate::commands::database_args::DatabaseArgs;
use crate::config::{Config, Problem};

/// Enough for a word. Some models need more than one token to say anything.
const MAX_TOKENS: u32 = 16;

#[derive(Debug, Args)]
pub struct ConnectArgs {
    /// Also start the MCP servers, list their tools, and check the tools of agents
    #[arg(long)]
    connect: bool,

    /// Also call each model once, with a tiny request
    #[arg(long)]
    call_models: bool,

    /// The longest time for each server and each model, in seconds
    #[arg(long, value_name = "S", default_value_t = 30.0, value_parser = seconds)]
    timeout: f64,

    #[command(flatten)]
    database: DatabaseArgs,
}

impl ConnectArgs {
    pub fn is_wanted(&self) -> bool {
        self.connect || self.call_models
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "must be a number of seconds".to_owned())?;
    if (0.1..=3600.0).contains(&seconds) { Ok(seconds) } else { Err("must be 0.1 to 3600".into()) }
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Connected {
    /// By server: the tools, and how long it took.
    servers: Option<BTreeMap<String, Outcome<Vec<String>>>>,
    /// By model.
    calls: Option<BTreeMap<String, Outcome<()>>>,
    pub errors: Vec<Problem>,
    pub warnings: Vec<Problem>,
}

#[derive(Debug)]
struct Outcome<T> {
    result: Result<T, String>,
    took: Duration,
}

impl<T> Outcome<T> {
    async fn of(patience: Duration, work: impl Future<Output = Result<T, String>>) -> Self {
        let started = Instant::now();
        let result = timeout(patience, work)
            .await
            .unwrap_or_else(|_| Err(format!("no answer within {} s", patience.as_secs_f64())));
        Self { result, took: started.elapsed() }
    }
}

pub async fn connect(arguments: &ConnectArgs, config: &Config) -> Connected {
    let mut connected = Connected::default();
    let patience = Duration::from_secs_f64(arguments.timeout);
    if arguments.connect {
        let list = config.tools.mcp.iter().map(|(name, server)| list(name, server, patience));
        let servers: BTreeMap<_, _> = join_all(list).await.into_iter().collect();
        for (name, outcome) in &servers {
            if let Err(why) = &outcome.result {
                let name = format!("tools.mcp.{name}");
                connected.errors.push(problem(config, name, format!("is not connected: {why}")));
            }
        }
        connected.errors.extend(unknown_tools(config, &servers));
        connected.servers = Some(servers);
        connected.warnings.extend(cap_warning(&arguments.database, config).await);
    }
    if arguments.call_models {
        let calls = config.models.iter().map(|(name, model)| call(name, model, patience));
        let calls: BTreeMap<_, _> = join_all(calls).await.into_iter().collect();
        for (name, outcome) in &calls {
            if let Err(why) = &outcome.result {
                let name = format!("models.{name}");
                connected.errors.push(problem(config, name, format!("does not answer: {why}")));
            }
        }
        connected.calls = Some(calls);
    }
    connected
}

async fn list(
    name: &str,
    config: &McpConfig,
    patience: Duration,
) -> (String, Outcome<Vec<String>>) {
    (name.to_owned(), Outcome::of(patience, list_tools(name, config)).await)
}

async fn call(name: &str, config: &ModelConfig, patience: Duration) -> (String, Outcome<()>) {
    let calling = async {
        let client = http_client().map_err(|error| error.to_string())?;
        let few = config.max_tokens.map_or(MAX_TOKENS, |most| most.min(MAX_TOKENS));
        // The budget of thinking must be below max_tokens.
        let thinks = config.extra_body.contains_key("thinking");
        let max_tokens = if thinks { config.max_tokens } else { Some(few) };
        let config = ModelConfig { max_tokens, ..config.clone() };
        let model = Model::new(name, &config, client).map_err(|error| error.problem)?;
        let messages = vec![Message::User("Say yes.".into())];
        let request =
            Request { system: String::new(), messages, with_tools: false, extra_body: None };
        model.call(&request, &[], |_| {}).await.map(drop).map_err(|error| error.to_string())
    };
    (name.to_owned(), Outcome::of(patience, calling).await)
}

/// The tools of agents that no table and no connected server has. While a server is not connected,
/// only it knows.
fn unknown_tools(
    config: &Config,
    servers: &BTreeMap<String, Outcome<Vec<String>>>,
) -> Vec<Problem> {
    let listed = |(name, outcome)| -> Option<Vec<(&str, &str)>> {
        let (name, outcome): (&String, &Outcome<Vec<String>>) = (name, outcome);
        let tools = outcome.result.as_ref().ok()?.iter();
        Some(tools.map(|tool| (name.as_str(), tool.as_str())).collect())
    };
    let Some(served) = servers.iter().map(listed).collect::<Option<Vec<_>>>() else {
        return Vec::new();
    };
    let others: BTreeSet<&str> = config.tool_names.tools.iter().map(String::as_str).collect();
    let known = agent_names(&others, &served.concat());
    let mut unknown = Vec::new();
    for agent in config.agents.values() {
        let definition = &agent.definition;
        let of_skills = definition.config.skills.iter().flat_map(|skill| &skill.tools);
        for tool in definition.config.tools.iter().chain(of_skills) {
            if !others.contains(tool.as_str()) && !known.contains(tool) {
                unknown.push(Problem {
                    location: agent.source.clone(),
                    name: format!("agents.{}.tools", definition.name),
                    text: format!("no table and no MCP server has the tool {tool:?}"),
                });
            }
        }
    }
    unknown
}

/// Compares the caps, if a database is known.
async fn cap_warning(database: &DatabaseArgs, config: &Config) -> Option<Problem> {
    config.limits.given_cap()?;
    let store = Store::open(&database.url().ok()?, 1).await.ok()?;
    let slots = store.slots().await;
    store.close().await;
    let text = adopt_cap::difference(config, slots.ok()?.cap)?;
    Some(Problem { location: config.locate("limits.cap"), name: String::new(), text })
}

fn problem(config: &Config, name: String, text: String) -> Problem {
    Problem { location: config.locate(&name), name, text }
}

impl Connected {
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, outcome) in self.servers.iter().flatten() {
            if let Ok(tools) = &outcome.result {
                let tools = if tools.is_empty() { "no tools".to_owned() } else { tools.join(", ") };
                lines
                    .push(format!("server  {name}: {tools} ({:.1} s)", outcome.took.as_secs_f64()));
            }
        }
        for (name, outcome) in self.calls.iter().flatten() {
            if outcome.result.is_ok() {
                lines.push(format!(
                    "called  {name}: answered in {:.1} s",
                    outcome.took.as_secs_f64()
                ));
            }
        }
        lines
    }

    pub fn add_to(&self, about: &mut Value) {
        if let Some(servers) = &self.servers {
            let server = |(name, outcome): (&String, &Outcome<Vec<String>>)| {
                json!({
                    "name": name, "tools": outcome.result.as_ref().ok(), "error": outcome.result.as_ref().err(),
                    "duration_ms": millis(outcome.took),
                })
            };
            about["mcp_servers"] = servers.iter().map(server).collect();
        }
        if let Some(calls) = &self.calls {
            let call = |(name, outcome): (&String, &Outcome<()>)| {
                json!({
                    "model": name, "error": outcome.result.as_ref().err(), "duration_ms": millis(outcome.took),
                })
            };
            about["calls"] = calls.iter().map(call).collect();
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
