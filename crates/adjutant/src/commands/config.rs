//! `adjutant config`: checks the config, and prints the example.

mod connect;

use std::path::PathBuf;
use std::process::ExitCode;

use adjutant_worker::model::ModelConfig;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use self::connect::Connected;
use crate::config::skills::Skill;
use crate::config::{Config, EXAMPLE, Loaded, Location, Problem, Role, Server};
use crate::output::{note, print_json, print_line};

/// Check the config file, or print a commented example
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Check(Check),
    Example(Example),
}

/// Print a summary of the config and all errors in it
///
/// Reads the file, the environment and the agents' files as every other command does, but starts
/// nothing. What is not an error of the config but missing on this machine, as the API key of a
/// model, is a warning.
///
/// With --connect it also starts or reaches each MCP server, lists its tools, and checks that there
/// is every tool that an agent names; what is missing on this machine is an error then. If a
/// database is known, its cap is compared with limits.cap. --call-models calls each model once,
/// with a request of a few tokens, which may cost something. The exit code is 1 if there is an
/// error.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant config check                           ./adjutant.toml, or what ADJUTANT_CONFIG names
  adjutant config check --config /etc/adjutant.toml
  adjutant config check --json | jq '.errors[]'
  adjutant config check --connect                 also start the MCP servers and list their tools
  adjutant config check --connect --call-models   also call each model once
  adjutant config check --for serve               as `adjutant serve` does: workers have the rest
")]
struct Check {
    /// The config file [default: $ADJUTANT_CONFIG, else ./adjutant.toml if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Check it for a process that runs tasks (work, up, mcp), or for one that only accepts them
    #[arg(long = "for", value_name = "COMMAND", default_value = "work", value_parser = ["work", "up", "mcp", "serve"])]
    purpose: String,

    #[command(flatten)]
    connect: connect::ConnectArgs,

    /// Print one JSON object: ok, file, name, models, agents, tools, limits, lease_seconds, errors,
    /// warnings; with --connect also mcp_servers with their tools, with --call-models also calls
    #[arg(long)]
    json: bool,
}

/// Print a config file with every setting, its default and its description
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant config example > adjutant.toml
")]
struct Example {}

pub async fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match &arguments.action {
        Action::Check(check) => run_check(check).await,
        Action::Example(Example {}) => {
            print_line(EXAMPLE.trim_end())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn run_check(check: &Check) -> anyhow::Result<ExitCode> {
    let role = if check.purpose == "serve" { Role::Server } else { Role::Worker };
    let Loaded { mut config, mut errors } = Loaded::from_process(check.config.as_deref(), role);
    let mut connected = Connected::default();
    if errors.is_empty() && role == Role::Worker {
        let missing = config.missing_here();
        if check.connect.is_wanted() { &mut errors } else { &mut config.warnings }.extend(missing);
    }
    if errors.is_empty() {
        connected = connect::connect(&check.connect, &config).await;
        errors.append(&mut connected.errors);
        config.warnings.append(&mut connected.warnings);
    }
    if check.json {
        let mut about = as_json(&config, &errors);
        connected.add_to(&mut about);
        print_json(&about.to_string())?;
    } else {
        print_line(as_text(&config))?;
        connected.lines().iter().try_for_each(print_line)?;
        config.warnings.iter().for_each(|warning| note!("warning: {warning}"));
        errors.iter().for_each(|error| note!("error: {error}"));
    }
    Ok(if errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn as_json(config: &Config, errors: &[Problem]) -> Value {
    let models: Vec<Value> = config
        .models
        .iter()
        .map(|(name, model)| {
            json!({
                "name": name,
                "wire": model.wire.as_str(),
                "model": model.model.as_ref().unwrap_or(name),
                "max_tokens": model.max_tokens,
                "context_window": model.context_window,
                "missing_key": missing_key(model),
            })
        })
        .collect();
    let agents: Vec<Value> = config
        .agents
        .values()
        .map(|agent| {
            let definition = &agent.definition;
            json!({
                "name": definition.name,
                "source": agent.source.to_string(),
                "description": definition.description,
                "model": Some(&definition.config.model).filter(|model| !model.is_empty()),
                "max_turns": definition.config.max_turns,
                "tools": definition.config.tools,
                "skills": names_of(&definition.config.skills),
            })
        })
        .collect();
    json!({
        "ok": errors.is_empty(),
        "file": config.path,
        "name": config.name,
        "default_model": config.model_names.default,
        "model_aliases": config.model_names.aliases,
        "models": models,
        "agents": agents,
        "skills": skills_as_json(config),
        "free_form": config.free_form.is_some(),
        "tools": config.tool_names.tools,
        "mcp_servers": config.tool_names.servers,
        "limits": config.limits,
        "lease_seconds": config.lease_seconds,
        "log_payloads": config.log_payloads,
        "errors": errors.iter().map(problem_as_json).collect::<Vec<_>>(),
        "warnings": config.warnings.iter().map(problem_as_json).collect::<Vec<_>>(),
    })
}

fn skills_as_json(config: &Config) -> Vec<Value> {
    let skill = |skill: &Skill| {
        let definition = &skill.definition;
        json!({
            "name": definition.name, "source": skill.source.to_string(), "description": definition.description,
            "tools": definition.tools,
        })
    };
    config.skills.values().map(skill).collect()
}

fn names_of(skills: &[adjutant_agent::Skill]) -> Vec<&str> {
    skills.iter().map(|skill| skill.name.as_str()).collect()
}

fn problem_as_json(problem: &Problem) -> Value {
    let (variable, file, line, column) = match &problem.location {
        Location::Variable(name) => (Some(name), None, None, None),
        Location::File(file) => (None, Some(file), None, None),
        Location::Line { file, line, column } => (None, Some(file), Some(line), Some(column)),
    };
    json!({
        "variable": variable.map(|name| &**name),
        "file": file.map(|file| &**file),
        "line": line,
        "column": column,
        "name": Some(&problem.name).filter(|name| !name.is_empty()),
        "message": problem.text,
    })
}

fn as_text(config: &Config) -> String {
    let mut lines = vec![match &config.path {
        Some(path) => format!("file    {}", path.display()),
        None => "file    none: defaults and environment variables".to_owned(),
    }];
    lines.push(format!("name    {}, to which its agents belong", config.name));
    for (name, model) in &config.models {
        let default =
            if config.model_names.default.as_ref() == Some(name) { ", the default" } else { "" };
        let sent = model.model.as_ref().unwrap_or(name);
        let key =
            missing_key(model).map(|name| format!("; workers need {name} in the environment"));
        let (wire, key) = (model.wire.as_str(), key.unwrap_or_default());
        lines.push(format!("model   {name}: {sent}, {wire} format{default}{key}"));
    }
    for (alias, model) in &config.model_names.aliases {
        lines.push(format!("alias   {alias}: {model}"));
    }
    for agent in config.agents.values() {
        let definition = &agent.definition;
        let agent_config = &definition.config;
        let model =
            if agent_config.model.is_empty() { "the session's model" } else { &agent_config.model };
        lines.push(format!(
            "agent   {}: {model}, {} turns, {} ({})",
            definition.name,
            agent_config.max_turns,
            list("tools", &agent_config.tools),
            agent.source
        ));
    }
    for skill in config.skills.values() {
        let definition = &skill.definition;
        lines.push(format!(
            "skill   {}: {} ({})",
            definition.name,
            list("tools", &definition.tools),
            skill.source
        ));
    }
    if config.free_form.is_some() {
        lines.push("agents  with any other name are free-form agents".to_owned());
    }
    let tools: Vec<String> = config.tool_names.tools.iter().cloned().collect();
    lines.push(list("tools  ", &tools));
    for server in &config.tool_names.servers {
        lines.push(format!("tools   all of the MCP server {server}"));
    }
    let limits = &config.limits;
    lines.push(format!(
        "limits  cap {} (for a database without one), {} active and {} unfinished tasks a session, {} turns",
        limits.cap, limits.session_max_active, limits.session_max_queued, limits.max_turns_ceiling
    ));
    lines.push(format!("lease   {} seconds", config.lease_seconds));
    lines.push(format!(
        "server  listens on {}, request bodies of at most {} bytes",
        config.server.listen, config.server.max_body_bytes
    ));
    lines.extend(tenant_limits(&config.server));
    if config.log_payloads {
        lines.push("logs    contain the texts of tasks".to_owned());
    }
    lines.join("\n")
}

/// The limits of each tenant, if there are any.
fn tenant_limits(server: &Server) -> Option<String> {
    let whole = [
        (server.tenant_max_sessions, "sessions"),
        (server.tenant_max_active, "tasks active"),
        (server.tenant_max_queued, "unfinished"),
    ];
    let rates = [
        (server.tenant_requests_per_s, "requests a second"),
        (server.session_status_per_s, "status calls a second and session"),
    ];
    let whole = whole.iter().filter_map(|(limit, what)| Some(format!("{} {what}", (*limit)?)));
    let rates = rates.iter().filter_map(|(limit, what)| Some(format!("{} {what}", (*limit)?)));
    let limits: Vec<String> = whole.chain(rates).collect();
    (!limits.is_empty()).then(|| format!("tenant  at most {}", limits.join(", ")))
}

/// A missing key is not an error: a config may be checked on a machine that does not have the keys.
pub fn missing_key(model: &ModelConfig) -> Option<&str> {
    model.api_key_env.as_deref().filter(|name| std::env::var_os(name).is_none())
}

fn list(what: &str, names: &[String]) -> String {
    if names.is_empty() {
        format!("no {}", what.trim_end())
    } else {
        format!("{what} {}", names.join(", "))
    }
}
