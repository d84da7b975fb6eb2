//! `adjutant spawn`: gives a task to an agent.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::client::{Client, Form};
use crate::commands::collect::collect;
use crate::commands::reach::{InSession, Reach};
use crate::commands::waiting::{Enough, Waited, Waiting};
use crate::exit::{Exit, Told, examples};
use crate::moment::read_span;
use crate::output::print_line;
use crate::table::text;

/// Give a task to an agent
///
/// Prints the task's id and returns; the work goes on without us. With --wait it stays, shows how far the task is, and prints
/// its result as `adjutant collect` does. A spawn whose answer is lost on its way is made again, and there is one task.
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant spawn researcher 'Why is the checkout slow since Monday?'
  adjutant spawn researcher --wait 'Why is the checkout slow since Monday?' > answer.md
  adjutant spawn researcher - < question.txt
  git diff | adjutant spawn reviewer --wait

  id=$(adjutant spawn researcher 'Find the cause')         one after the other:
  adjutant spawn writer --depends-on $id 'Write the post-mortem from what the shared context says'

  adjutant spawn researcher --queue --label nightly 'Check the backups'        even if five are at work
  adjutant spawn researcher --max-cost-usd 0.50 --timeout 10m 'Look around'   but not for ever
"))]
pub struct Arguments {
    /// The agent; `adjutant agents` lists them
    #[arg(value_name = "AGENT")]
    agent: String,

    /// What is to be done, at most 1000 tokens; `-`, or nothing if it is piped: standard input
    #[arg(value_name = "TASK")]
    task: Option<String>,

    #[command(flatten)]
    session: InSession,

    /// Wait for it and print its result, for at most TIME if one is given: --wait=10m
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, value_parser = read_span)]
    wait: Option<Option<Duration>>,

    /// With --wait: Ctrl-C cancels the task too
    #[arg(long, requires = "wait")]
    cancel_on_interrupt: bool,

    #[command(flatten)]
    terms: Terms,

    #[command(flatten)]
    reach: Reach,
}

/// Under which terms it runs.
#[derive(Debug, Args)]
#[command(next_help_heading = "Terms")]
struct Terms {
    /// Let it wait for room when the session has too many tasks, instead of being refused
    #[arg(long)]
    queue: bool,

    /// Tasks that must complete first
    #[arg(long, value_name = "TASK_ID", value_delimiter = ',')]
    depends_on: Vec<String>,

    /// A name to recognise it by
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,

    /// More about it, for you: shown, and never given to a model
    #[arg(long, value_name = "KEY=VALUE", value_parser = read_pair)]
    metadata: Vec<(String, String)>,

    /// The longest that it may run, waiting not counted: 90, 90s, 15m, 2h
    #[arg(long, value_name = "TIME", value_parser = read_span)]
    timeout: Option<Duration>,

    /// Stop it when it has used so many
    #[arg(long, value_name = "N")]
    max_input_tokens: Option<u64>,

    /// Stop it when it has used so many
    #[arg(long, value_name = "N")]
    max_output_tokens: Option<u64>,

    /// Stop it when it has cost so much
    #[arg(long, value_name = "USD")]
    max_cost_usd: Option<f64>,

    /// Those with a higher one run first
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,

    /// Do not begin before this time has passed
    #[arg(long, value_name = "TIME", value_parser = read_span)]
    delay: Option<Duration>,

    /// A URL that is told when it has ended; docs/webhooks.md says how
    #[arg(long, value_name = "URL")]
    webhook: Option<String>,

    /// The same key in the same session makes one task, however often it is said [default: a new one]
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

fn read_pair(said: &str) -> Result<(String, String), String> {
    let (key, value) = said.split_once('=').ok_or("must be like key=value")?;
    if key.is_empty() {
        Err("must be like key=value".to_owned())
    } else {
        Ok((key.to_owned(), value.to_owned()))
    }
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = arguments.reach.client()?;
    let session = arguments.session.name();
    let task = text_or_stdin(arguments.task.as_deref(), "TASK")?;
    let call = call(&arguments.agent, &task, &arguments.terms);
    let spawn = async || client.tool_in_new(session, "subagent", &call).await;
    let answer = client.patiently(spawn).await?;
    let id = text(&answer.value, "task_id");
    let again = format!("{}{}", arguments.session.again(), arguments.reach.again(&client));
    let Some(longest) = arguments.wait else {
        match client.form() {
            Form::Json => print_line(&answer.text)?,
            Form::Plain => {
                print_line(&id)?;
                eprintln!("adjutant: its result, when it has ended: adjutant collect {id} --wait{again}");
            }
        }
        return Ok(Exit::Done.into());
    };
    let until = longest.and_then(|longest| Instant::now().checked_add(longest));
    let waiting = Waiting { client: &client, session, until };
    match waiting.wait(std::slice::from_ref(&id), Enough::All).await? {
        Waited::Ended(_) => collect(&client, session, &id).await,
        Waited::TimedOut(_) => {
            eprintln!("adjutant: {id} is still at it. Wait on with: adjutant collect {id} --wait{again}");
            Ok(Exit::NotReady.into())
        }
        Waited::Interrupted(by) => {
            if arguments.cancel_on_interrupt {
                cancel(&client, session, &id).await?;
            } else {
                eprintln!("adjutant: {id} goes on. Wait on with: adjutant wait {id}{again}");
            }
            Err(by.into())
        }
    }
}

async fn cancel(client: &Client, session: &str, id: &str) -> anyhow::Result<()> {
    let call = json!({"action": "cancel", "task_id": id});
    let cancelled = client.patiently(async || client.subagent(session, &call).await).await;
    cancelled.with_context(|| format!("{id} is not cancelled; try again with: adjutant cancel {id}"))?;
    eprintln!("adjutant: {id} is cancelled");
    Ok(())
}

fn call(agent: &str, task: &str, terms: &Terms) -> Value {
    let key = terms.idempotency_key.clone().unwrap_or_else(|| Uuid::now_v7().to_string());
    let mut call = Map::new();
    let mut say = |name: &str, value: Option<Value>| {
        call.extend(value.map(|value| (name.to_owned(), value)));
    };
    say("action", Some("spawn".into()));
    say("agent", Some(agent.into()));
    say("task", Some(task.into()));
    say("idempotency_key", Some(key.into()));
    say("queue", terms.queue.then_some(true.into()));
    say("depends_on", Some(json!(terms.depends_on)).filter(|_| !terms.depends_on.is_empty()));
    say("label", terms.label.clone().map(Value::from));
    let metadata =
        || terms.metadata.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
    say("metadata", (!terms.metadata.is_empty()).then(|| Value::Object(metadata())));
    say("timeout_s", terms.timeout.map(|timeout| timeout.as_secs_f64().into()));
    say("max_input_tokens", terms.max_input_tokens.map(Value::from));
    say("max_output_tokens", terms.max_output_tokens.map(Value::from));
    say("max_cost_usd", terms.max_cost_usd.map(Value::from));
    say("priority", terms.priority.map(Value::from));
    say("webhook", terms.webhook.as_ref().map(|url| json!({ "url": url })));
    say("delay_s", terms.delay.map(|delay| delay.as_secs_f64().into()));
    Value::Object(call)
}

/// What was said on the command line, or what is piped in, without the line's end that a shell adds.
pub fn text_or_stdin(said: Option<&str>, name: &str) -> anyhow::Result<String> {
    match said {
        Some(text) if text != "-" => return Ok(text.to_owned()),
        None if std::io::stdin().is_terminal() => {
            return Err(
                Told::usage(format!("{name}: say it, or pipe it in (`-` reads what you type)")).into()
            );
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
        call(&arguments.agent, arguments.task.as_deref().unwrap(), &arguments.terms)
    }

    #[test]
    fn what_is_not_said_is_not_sent() {
        let sent = body(&["clerk", "count", "--idempotency-key", "k"]);
        assert_eq!(
            sent,
            json!({"action": "spawn", "agent": "clerk", "task": "count", "idempotency_key": "k"})
        );
    }

    #[test]
    fn every_term_is_sent_under_its_name() {
        let line = "clerk count --queue --depends-on t_01,t_02 --depends-on t_03 --label nightly --metadata a=b=c --timeout 1.5m \
            --max-input-tokens 10 --max-output-tokens 20 --max-cost-usd 0.5 --priority -3 --delay 1h --idempotency-key k --wait=5";
        let sent = body(&line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(
            sent,
            json!({
                "action": "spawn", "agent": "clerk", "task": "count", "idempotency_key": "k", "queue": true,
                "depends_on": ["t_01", "t_02", "t_03"], "label": "nightly", "metadata": {"a": "b=c"}, "timeout_s": 90.0,
                "max_input_tokens": 10, "max_output_tokens": 20, "max_cost_usd": 0.5, "priority": -3, "delay_s": 3600.0,
            })
        );
    }

    #[test]
    fn every_spawn_has_a_key_of_its_own() {
        let keys: Vec<Value> = (0..2).map(|_| body(&["clerk", "count"])["idempotency_key"].clone()).collect();
        assert!(keys[0].is_string());
        assert_ne!(keys[0], keys[1]);
    }
}
