//! The command line.

use clap::{CommandFactory, Parser, Subcommand};

use crate::commands::{
    agents, audit, bench, cancel, collect, completions, config, context, demo, doctor, keys,
    limits, mcp, migrate, postgres, raise, read, script_model, serve, sessions, spawn, status,
    tasks, tenants, up, wait, watch, webhooks, work,
};

/// Durable delegation for AI agents, on PostgreSQL.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Up(up::Arguments),
    Serve(serve::Arguments),
    Work(work::Arguments),
    Mcp(mcp::Arguments),
    Demo(demo::Arguments),
    Agents(agents::Arguments),
    Spawn(spawn::Arguments),
    Wait(wait::Arguments),
    Collect(collect::Arguments),
    Read(read::Arguments),
    Cancel(cancel::Arguments),
    Raise(raise::Arguments),
    Context(context::Arguments),
    Status(status::Arguments),
    Tasks(tasks::Arguments),
    Watch(watch::Arguments),
    Sessions(sessions::Arguments),
    Webhooks(webhooks::Arguments),
    Keys(keys::Arguments),
    Limits(limits::Arguments),
    Tenants(tenants::Arguments),
    Audit(audit::Arguments),
    Doctor(doctor::Arguments),
    Config(config::Arguments),
    Migrate(migrate::Arguments),
    Postgres(postgres::Arguments),
    ScriptModel(script_model::Arguments),
    Bench(bench::Arguments),
    Completions(completions::Arguments),
}

/// The groups of the help, and the commands in each.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Running", &["up", "serve", "work", "mcp", "demo"]),
    ("Delegating", &["agents", "spawn", "wait", "collect", "read", "cancel", "raise", "context"]),
    ("Inspecting", &["status", "tasks", "watch", "sessions", "webhooks"]),
    (
        "Operating",
        &[
            "doctor",
            "config",
            "keys",
            "limits",
            "tenants",
            "audit",
            "migrate",
            "postgres",
            "script-model",
            "bench",
            "completions",
        ],
    ),
];

const FIRST_STEPS: &str = "\
First steps:
  adjutant config example > adjutant.toml        then set a model and an agent in it
  adjutant up                                    run everything in one process
  adjutant spawn researcher --wait 'Why is the checkout slow since Monday?'

`adjutant COMMAND --help` describes a command, with examples.";

impl Cli {
    /// The command line with a help text that lists the commands in groups, which clap cannot do.
    pub fn with_groups() -> clap::Command {
        let command = Self::command();
        let commands = command_list(&command);
        command.help_template(format!(
            "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{commands}\n\nOptions:\n{{options}}\n\n{FIRST_STEPS}\n"
        ))
    }
}

fn command_list(command: &clap::Command) -> String {
    let groups = GROUPS.iter().map(|(title, names)| {
        let command = names.iter().filter_map(|name| command.find_subcommand(name));
        let lines = command.map(|command| {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            format!("\n  {:<13} {about}", command.get_name())
        });
        format!("\n{title}:{}", lines.collect::<String>())
    });
    groups.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_definition_is_valid() {
        Cli::with_groups().debug_assert();
    }

    #[test]
    fn every_command_is_in_one_group() {
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name();
            let groups =
                GROUPS.iter().flat_map(|(_, names)| *names).filter(|command| **command == name);
            assert_eq!(groups.count(), 1, "{name}");
        }
    }

    #[test]
    fn every_command_shows_examples() {
        fn check(command: &clap::Command) {
            let has_subcommands = command.get_subcommands().next().is_some();
            let help = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
            assert!(
                help.contains("Examples:") || has_subcommands,
                "{} has no examples",
                command.get_name()
            );
            if let Some((_, first)) = help.split_once("Examples:\n") {
                assert!(
                    first.starts_with("  adjutant"),
                    "{}: the first example is not indented",
                    command.get_name()
                );
            }
            command.get_subcommands().for_each(check);
        }
        Cli::command().get_subcommands().for_each(check);
    }
}
