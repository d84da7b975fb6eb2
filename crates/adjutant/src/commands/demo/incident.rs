//! The incident: a shop whose pages became slow, its logs, its agents, and the script of the model.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use adjutant_agent::AgentDraft;
use adjutant_script::{Answer, Script, ScriptServer, When, text, tool_call};
use anyhow::Context;
use serde_json::{Value, json};

/// Each service has a log and a researcher.
pub const SERVICES: [&str; 12] = [
    "basket",
    "catalogue",
    CULPRIT,
    "checkout",
    "delivery",
    "invoices",
    "mail",
    "payments",
    "reviews",
    "search",
    "stock",
    "vouchers",
];
/// The service that the others wait for.
pub const CULPRIT: &str = "prices";
/// The line of its log that shows the cause. It occurs nowhere else, so an agent that quotes it got
/// it from there.
pub const EVIDENCE: &str = "a price stays in the cache for 6 s";
/// The answer during which a worker is killed.
pub const FATAL_TURN: u32 = 3;

pub const PROBLEM: &str = "Since 09:12 the pages of the shop take seconds instead of milliseconds.";
pub const SCOPE: &str = "Find the cause in logs/ and config/. Change nothing.";
pub const DECISION: &str = "The new cache time is a mistake. Go back to 600 s.";

/// The time that the model takes for an answer.
const THINKING: Duration = Duration::from_millis(150);
/// The delay of the answer that the killed worker waits for.
const FOREVER: Duration = Duration::from_secs(600);

pub fn researchers_task(service: &str) -> String {
    format!(
        "Read logs/{service}.log with the problem in mind, and write what you find to finding_{service}."
    )
}

pub const REMEDIATORS_TASK: &str =
    "Prepare the change that the decision asks for, and write it to fix.";
pub const WRITERS_TASK: &str = "Write the report of the incident for the shop's owners to report.";

/// An agent that is defined during the demo.
pub fn remediator() -> AgentDraft {
    AgentDraft {
        name: "remediator".to_owned(),
        description: Some("Prepares a change that was decided".to_owned()),
        system_prompt: Some(
            "You prepare changes to settings, and never more than was decided.".to_owned(),
        ),
        tools: Some(vec!["shared_context".to_owned(), "read_file".to_owned()]),
        max_turns: Some(6),
        max_cost_usd: Some(0.1),
        ..AgentDraft::default()
    }
}

/// Writes the files of the shop and the config below `dir`, and returns the path of the config.
pub fn write_files(dir: &Path, model: &ScriptServer) -> anyhow::Result<PathBuf> {
    let write = |path: &str, text: &str| -> anyhow::Result<PathBuf> {
        let path = dir.join(path);
        let folder = path.parent().context("it has a folder")?;
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    };
    for service in SERVICES {
        write(&format!("shop/logs/{service}.log"), &log(service))?;
    }
    write("shop/config/prices.toml", "cache_ttl_s = 6\n")?;
    write("adjutant.toml", &config(&model.anthropic_base_url(), &model.openai_base_url()))
}

fn log(service: &str) -> String {
    if service == CULPRIT {
        return format!(
            "08:59:58 INFO started: a price stays in the cache for 600 s\n09:12:03 WARN config/prices.toml was read again: {EVIDENCE}\n"
        );
    }
    format!("08:59:58 INFO started\n09:12:09 WARN a page of {service} waited 3.9 s for prices\n")
}

/// Two models with two wire formats, one for the researchers and one for the writer. The lease has
/// its minimum length, to keep the demo short.
fn config(anthropic: &str, openai: &str) -> String {
    format!(
        r#"
[models.careful]
wire = "anthropic"
base_url = "{anthropic}"
prices = {{ input = 3.0, output = 15.0 }}

[models.quick]
wire = "openai"
base_url = "{openai}"
prices = {{ input = 0.5, output = 1.5 }}

[agents.researcher]
description = "Reads logs and settings, and finds causes"
system_prompt = "You are a researcher. You quote what you rely on."
tools = ["shared_context", "search_files", "read_file"]
model = "careful"

[agents.writer]
description = "Writes reports"
system_prompt = "You write for people who have no time."
tools = ["shared_context"]
model = "quick"

[tools.files]
root = "./shop"

[lease]
seconds = 2
"#
    )
}

/// The answers of the model.
pub fn script() -> Script {
    let mut script = Script::new();
    for service in SERVICES {
        script = if service == CULPRIT {
            researcher_of_prices(script)
        } else {
            researcher(script, service)
        };
    }
    let script = script
        .on(When::assignment(REMEDIATORS_TASK))
        .then(thinking(read(&["finding_prices", "decision"])))
        .then(thinking(tool_call("read_file", json!({"path": "config/prices.toml"}))))
        .then(thinking(write("fix", "In config/prices.toml, cache_ttl_s = 600 instead of 6.")))
        .then(thinking(text("The change is in fix, and is not made yet.")));
    script
        .on(When::assignment(WRITERS_TASK))
        .then(thinking(read(&["problem", "finding_prices", "decision"])))
        .then(thinking(write(
            "report",
            "From 09:12 on, prices were kept for 6 s instead of 600 s, and every page waited for them. It was a \
             slip in a setting; it is being put back.",
        )))
        .then(thinking(text("The report is in report.")))
}

fn researcher(script: Script, service: &str) -> Script {
    let log = format!("logs/{service}.log");
    script
        .on(When::assignment(researchers_task(service)))
        .then(thinking(read(&["problem", "scope"])))
        .then(thinking(tool_call("search_files", json!({"pattern": "WARN", "path": log}))))
        .then(thinking(write(&format!("finding_{service}"), "{last}")))
        .then(thinking(text(format!("{service} is not the cause: it waits for prices."))))
}

/// The answer of the fatal turn stops halfway the first time it is requested.
fn researcher_of_prices(script: Script) -> Script {
    let found = write("finding_prices", "{last}").and_call(
        "shared_context",
        json!({"action": "write", "key": "open_question", "value": "Is a cache time of 6 s what you want?"}),
    );
    script
        .on(When::assignment(researchers_task(CULPRIT)))
        .then(thinking(read(&["problem", "scope"])))
        .then(thinking(
            tool_call("search_files", json!({"pattern": "WARN", "path": "logs/prices.log"}))
                .and_call("read_file", json!({"path": "config/prices.toml"})),
        ))
        .turn(FATAL_TURN, [thinking(found.clone()).pause(FOREVER), thinking(found)])
        .then(thinking(text("prices is the cause: since 09:12 its cache forgets within seconds.")))
}

fn thinking(answer: Answer) -> Answer {
    answer.delay(THINKING)
}

fn read(keys: &[&str]) -> Answer {
    tool_call("shared_context", json!({"action": "read_batch", "keys": keys}))
}

fn write(key: &str, value: &str) -> Answer {
    let arguments: Value = json!({"action": "write", "key": key, "value": value});
    tool_call("shared_context", arguments)
}
