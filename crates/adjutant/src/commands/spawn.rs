//! `adjutant spawn`: gives a task to an agent.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::client::{CallError, Client, OutputFormat};
use crate::commands::collect::collect;
use crate::commands::server_args::{ServerArgs, SessionArgs};
use crate::commands::task_wait::{TaskWait, WaitMode, WaitOutcome};
use crate::exit::{CommandError, Exit, examples};
use crate::moment::parse_duration;
use crate::output::{note, print_json, print_line};
use crate::table::text;

/// Give a task to an agent
///
/// Prints the task's id and returns while the task runs. With --wait the command shows the progress
/// and prints the result, as `adjutant collect` does. If the connection breaks, the command
/// retries, and only one task is created.
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant spawn researcher 'Why is the checkout slow since Monday?'
  adjutant spawn researcher --wait 'Why is the checkout slow since Monday?' > answer.md
  adjutant spawn researcher - < question.txt
  git log --oneline -20 | adjutant spawn researcher --wait         standard input is the task

  git diff > data/change.diff                                      long input, for an agent with file tools:
  adjutant spawn reviewer --wait 'Review change.diff'              a file in the folder tools.files.root

  git diff | adjutant context write diff --file -                  long input, for any other agent:
  adjutant spawn reviewer --wait 'Review the diff in the shared context, keys diff_1 to diff_3'

  id=$(adjutant spawn researcher 'Find the cause')                 one task after the other
  adjutant spawn writer --depends-on $id 'Write the post-mortem from the findings in the shared context'

  adjutant spawn researcher --queue --label nightly 'Check the backups'        even if five tasks are active
  adjutant spawn researcher --max-cost-usd 0.50 --timeout 10m 'Explore the data'   with limits
"))]
pub struct Arguments {
    /// The name of the agent; `adjutant agents` lists them
    #[arg(value_name = "AGENT")]
    agent: String,

    /// The task; `-` or no task reads standard input. It has at most 4003 characters (1000 tokens),
    /// unless the server has another `limits.max_task_tokens`; the examples show how to pass more
    #[arg(value_name = "TASK")]
    task: Option<String>,

    #[command(flatten)]
    session: SessionArgs,

    /// Wait for the task and print its result; --wait=10m waits at most 10 minutes
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, value_parser = parse_duration)]
    wait: Option<Option<Duration>>,

    /// With --wait: Ctrl-C also cancels the task
    #[arg(long, requires = "wait")]
    cancel_on_interrupt: bool,

    #[command(flatten)]
    options: TaskOptions,

    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Task options")]
struct TaskOptions {
    /// Queue the task if the session has too many active tasks, instead of failing
    #[arg(long)]
    queue: bool,

    /// Tasks that must complete first, separated by commas
    #[arg(long, value_name = "TASK_ID", value_delimiter = ',')]
    depends_on: Vec<String>,

    /// A label, shown in lists
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,

    /// Metadata, shown with the task and never given to a model
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_pair)]
    metadata: Vec<(String, String)>,

    /// The longest time that the task may run, without the time in the queue: 90, 90s, 15m, 2h
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,

    /// Stop the task when it has used this many input tokens
    #[arg(long, value_name = "N")]
    max_input_tokens: Option<u64>,

    /// Stop the task when it has used this many output tokens
    #[arg(long, value_name = "N")]
    max_output_tokens: Option<u64>,

    /// Stop the task when it has cost this much
    #[arg(long, value_name = "USD")]
    max_cost_usd: Option<f64>,

    /// What the task does at a limit: fail, or pause until `adjutant raise`
    #[arg(long, value_name = "fail|pause", value_parser = ["fail", "pause"])]
    on_budget: Option<String>,

    /// Tasks with a higher priority run first
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,

    /// Do not start before this time has passed
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    delay: Option<Duration>,

    /// The group of workers that run the task: those of `adjutant work --pool POOL`
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,

    /// A URL to notify when the task has ended; see docs/webhooks.md
    #[arg(long, value_name = "URL")]
    webhook: Option<String>,

    /// A key that prevents duplicates: the same key in the same session creates one task [default:
    /// a new key]
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

fn parse_pair(argument: &str) -> Result<(String, String), String> {
    let (key, value) = argument.split_once('=').ok_or("must be like key=value")?;
    if key.is_empty() {
        Err("must be like key=value".to_owned())
    } else {
        Ok((key.to_owned(), value.to_owned()))
    }
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = arguments.server.client()?;
    let session = arguments.session.name();
    let task = text_or_stdin(arguments.task.as_deref(), "TASK")?;
    let call = call(&arguments.agent, &task, &arguments.options);
    let spawn = async || client.tool_creating_session(session, "subagent", &call).await;
    let repeat_flags =
        format!("{}{}", arguments.session.repeat_flags(), arguments.server.repeat_flags(&client));
    let answer = match client.with_retries(spawn).await {
        Err(error) if error.has_code("TASK_TOO_LARGE") && client.format() == OutputFormat::Text => {
            let message = task_too_large(&arguments.agent, &error, &repeat_flags);
            return Err(CommandError::usage(message).into());
        }
        answer => answer?,
    };
    let id = text(&answer.value, "task_id");
    let Some(limit) = arguments.wait else {
        match client.format() {
            OutputFormat::Json => print_json(&answer.text)?,
            OutputFormat::Text => {
                print_line(&id)?;
                note!("adjutant: get the result with: adjutant collect {id} --wait{repeat_flags}");
            }
        }
        return Ok(Exit::Done.into());
    };
    let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    let wait = TaskWait { client: &client, session, deadline };
    match wait.wait(std::slice::from_ref(&id), WaitMode::All).await? {
        WaitOutcome::Ended(_) => collect(&client, session, &id).await,
        WaitOutcome::TimedOut(_) => {
            note!(
                "adjutant: {id} is still running. Continue with: adjutant collect {id} --wait{repeat_flags}"
            );
            Ok(Exit::NotReady.into())
        }
        WaitOutcome::Interrupted(by) => {
            if arguments.cancel_on_interrupt {
                cancel(&client, session, &id).await?;
            } else {
                note!(
                    "adjutant: {id} continues. Wait again with: adjutant wait {id}{repeat_flags}"
                );
            }
            Err(by.into())
        }
    }
}

/// The server's answer, and commands that pass the same input in another way.
fn task_too_large(agent: &str, refused: &CallError, repeat_flags: &str) -> String {
    format!(
        "{refused}
With these commands:
  adjutant context write input --file input.txt{repeat_flags}
  adjutant spawn {agent}{repeat_flags} 'Read the keys input_1, input_2, ... of the shared context, then ...'
The first one divides the file and names the keys; it reads standard input with --file -:
  git diff | adjutant context write input --file -{repeat_flags}
An agent with file tools can read input of any length from a file in the folder tools.files.root."
    )
}

async fn cancel(client: &Client, session: &str, id: &str) -> anyhow::Result<()> {
    let call = json!({"action": "cancel", "task_id": id});
    let cancelled = client.with_retries(async || client.subagent(session, &call).await).await;
    cancelled.with_context(|| {
        format!("{id} could not be cancelled; retry with: adjutant cancel {id}")
    })?;
    note!("adjutant: {id} was cancelled");
    Ok(())
}

fn call(agent: &str, task: &str, options: &TaskOptions) -> Value {
    let key = options.idempotency_key.clone().unwrap_or_else(|| Uuid::now_v7().to_string());
    let mut call = Map::new();
    let mut set = |name: &str, value: Option<Value>| {
        call.extend(value.map(|value| (name.to_owned(), value)));
    };
    set("action", Some("spawn".into()));
    set("agent", Some(agent.into()));
    set("task", Some(task.into()));
    set("idempotency_key", Some(key.into()));
    set("queue", options.queue.then_some(true.into()));
    set("depends_on", Some(json!(options.depends_on)).filter(|_| !options.depends_on.is_empty()));
    set("label", options.label.clone().map(Value::from));
    let metadata = || {
        options.metadata.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect()
    };
    set("metadata", (!options.metadata.is_empty()).then(|| Value::Object(metadata())));
    set("timeout_s", options.timeout.map(|timeout| timeout.as_secs_f64().into()));
    set("max_input_tokens", options.max_input_tokens.map(Value::from));
    set("max_output_tokens", options.max_output_tokens.map(Value::from));
    set("max_cost_usd", options.max_cost_usd.map(Value::from));
    set("on_budget", options.on_budget.clone().map(Value::from));
    set("priority", options.priority.map(Value::from));
    set("pool", options.pool.clone().map(Value::from));
    set("webhook", options.webhook.as_ref().map(|url| json!({ "url": url })));
    set("delay_s", options.delay.map(|delay| delay.as_secs_f64().into()));
    Value::Object(call)
}

/// The argument, or standard input without its final line break.
pub fn text_or_stdin(argument: Option<&str>, name: &str) -> anyhow::Result<String> {
    match argument {
        Some(text) if text != "-" => return Ok(text.to_owned()),
        None if std::io::stdin().is_terminal() => {
            return Err(CommandError::usage(format!(
                "{name} is required; pass it as an argument or on standard input (`-` reads from the terminal)"
            ))
            .into());
        }
        Some(_) | None => {}
    }
    let piped = std::io::read_to_string(std::io::stdin()).context("cannot read standard input")?;
    Ok(piped
        .strip_suffix('\n')
        .map(|text| text.strip_suffix('\r').unwrap_or(text))
        .unwrap_or(&piped)
        .to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn body(line: &[&str]) -> Value {
        let arguments = Line::try_parse_from(["spawn"].iter().chain(line)).unwrap().arguments;
        call(&arguments.agent, arguments.task.as_deref().unwrap(), &arguments.options)
    }

    #[test]
    fn options_that_are_not_given_are_not_sent() {
        let sent = body(&["clerk", "count", "--idempotency-key", "k"]);
        assert_eq!(
            sent,
            json!({"action": "spawn", "agent": "clerk", "task": "count", "idempotency_key": "k"})
        );
    }

    #[test]
    fn every_option_is_sent_under_its_name() {
        let line = "clerk count --queue --depends-on t_01,t_02 --depends-on t_03 --label nightly --metadata a=b=c --timeout 1.5m \
            --max-input-tokens 10 --max-output-tokens 20 --max-cost-usd 0.5 --priority -3 --pool gpu --delay 1h --idempotency-key k --wait=5";
        let sent = body(&line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(
            sent,
            json!({
                "action": "spawn", "agent": "clerk", "task": "count", "idempotency_key": "k", "queue": true,
                "depends_on": ["t_01", "t_02", "t_03"], "label": "nightly", "metadata": {"a": "b=c"}, "timeout_s": 90.0,
                "max_input_tokens": 10, "max_output_tokens": 20, "max_cost_usd": 0.5, "priority": -3, "pool": "gpu", "delay_s": 3600.0,
            })
        );
    }

    #[test]
    fn every_spawn_has_its_own_idempotency_key() {
        let keys: Vec<Value> =
            (0..2).map(|_| body(&["clerk", "count"])["idempotency_key"].clone()).collect();
        assert!(keys[0].is_string());
        assert_ne!(keys[0], keys[1]);
    }
}
