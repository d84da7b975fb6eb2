//! Cancels and retries of all tasks that match a filter, batch after batch.

use std::collections::BTreeMap;
use std::pin::pin;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Map, Value, json};

use super::search::Filter;
use crate::client::{Answer, CallError, Client, OutputFormat};
use crate::exit::{CommandError, Exit};
use crate::output::{Spinner, note, print_json, print_line};
use crate::signals::{Interrupted, Signals};
use crate::table::text;

/// A dry run stops counting at this number of tasks.
const MAX_COUNTED: u64 = 10_000;

#[derive(Debug, Args)]
pub(super) struct Selection {
    #[command(flatten)]
    pub(super) filter: Filter,

    /// Every task of the tenant, without a filter
    #[arg(long)]
    all: bool,

    /// Only say how many tasks it would be
    #[arg(long)]
    dry_run: bool,

    /// Go on behind this cursor, which an interrupted command printed
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

/// What is done with the tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Cancel,
    Retry,
}

/// What all batches so far have done.
#[derive(Debug, Default)]
struct Total {
    tasks: u64,
    below: u64,
    skipped: BTreeMap<String, u64>,
    next_cursor: Option<String>,
    searched_until: String,
}

impl Selection {
    pub(super) fn is_empty(&self) -> bool {
        self.filter.query().is_empty() && !self.all
    }
}

pub(super) async fn run(
    client: &Client,
    verb: Verb,
    selection: &Selection,
) -> anyhow::Result<ExitCode> {
    if selection.is_empty() {
        let message = format!(
            "give a filter, such as --agent; {} every task that can be needs --all",
            verb.doing()
        );
        return Err(CommandError::usage(message).into());
    }
    let mut total = Total { next_cursor: selection.cursor.clone(), ..Total::default() };
    let ended = batches(client, verb, selection, &mut total).await;
    let how_to_go_on = || match &total.next_cursor {
        Some(cursor) => format!("; the same command goes on, or add --cursor {cursor}"),
        None => "; the same command goes on".to_owned(),
    };
    match ended {
        Ok(None) => {
            print_total(client, verb, selection, &total)?;
            Ok(Exit::Done.into())
        }
        Ok(Some(interrupted)) => {
            print_total(client, verb, selection, &total)?;
            note!("adjutant: stopped{}", how_to_go_on());
            Err(interrupted.into())
        }
        Err(error) => {
            if total.tasks > 0 {
                note!("adjutant: {}{}", sentence(verb, selection, &total), how_to_go_on());
            }
            Err(error.into())
        }
    }
}

/// Sends requests until no more tasks match, or a signal arrives. The request that is under way is
/// waited for, so that the total is right; a second signal ends that, too.
async fn batches(
    client: &Client,
    verb: Verb,
    selection: &Selection,
    total: &mut Total,
) -> Result<Option<Interrupted>, CallError> {
    // Without signals, Ctrl-C ends the command at once, which loses nothing but the message.
    let (bar, mut signals) = (Spinner::start("searching").ok(), Signals::listen().ok());
    let mut stopped = None;
    loop {
        let body = body(selection, total.next_cursor.as_deref());
        let call = async || client.post(&["v1", "tasks", verb.word()], body.clone()).await;
        // Repeating a batch is harmless.
        let mut request = pin!(client.with_retries(call));
        let answer = loop {
            tokio::select! {
                answer = &mut request => break answer?,
                name = next_signal(&mut signals) => {
                    if stopped.replace(name).is_some() {
                        return Ok(Some(Interrupted(name)));
                    }
                    note!("adjutant: stopping after this batch");
                }
            }
        };
        total.add(&answer);
        if let Some(bar) = &bar {
            bar.show(&format!(
                "{}; searched back to {}",
                sentence(verb, selection, total),
                total.searched_until
            ));
        }
        let is_counted = selection.dry_run && total.tasks >= MAX_COUNTED;
        if total.next_cursor.is_none() || is_counted || stopped.is_some() {
            if let Some(bar) = bar {
                bar.clear();
            }
            // Everything is done, although there was a signal.
            return Ok(stopped.filter(|_| total.next_cursor.is_some()).map(Interrupted));
        }
    }
}

async fn next_signal(signals: &mut Option<Signals>) -> &'static str {
    match signals {
        Some(signals) => signals.next().await,
        None => std::future::pending().await,
    }
}

fn body(selection: &Selection, cursor: Option<&str>) -> Value {
    let mut body = Map::new();
    let filter = selection.filter.fields();
    if !filter.is_empty() {
        body.insert("filter".to_owned(), Value::Object(filter));
    }
    for (name, is_set) in [("all", selection.all), ("dry_run", selection.dry_run)] {
        if is_set {
            body.insert(name.to_owned(), json!(true));
        }
    }
    if let Some(cursor) = cursor {
        body.insert("cursor".to_owned(), json!(cursor));
    }
    Value::Object(body)
}

impl Total {
    fn add(&mut self, answer: &Answer) {
        let number = |value: Option<&Value>| value.and_then(Value::as_u64).unwrap_or(0);
        let answer = &answer.value;
        self.tasks += number(answer.get("tasks"));
        self.below += number(answer.get("below"));
        let skipped = answer.get("skipped").and_then(Value::as_object);
        for (reason, tasks) in skipped.into_iter().flatten() {
            *self.skipped.entry(reason.clone()).or_default() += number(Some(tasks));
        }
        self.next_cursor = Some(text(answer, "next_cursor")).filter(|next| !next.is_empty());
        self.searched_until = text(answer, "searched_until");
    }
}

fn print_total(
    client: &Client,
    verb: Verb,
    selection: &Selection,
    total: &Total,
) -> anyhow::Result<()> {
    if client.format() == OutputFormat::Text {
        return print_line(sentence(verb, selection, total));
    }
    let until = Some(&total.searched_until).filter(|until| !until.is_empty());
    let answer = json!({
        "dry_run": selection.dry_run, "tasks": total.tasks, "below": total.below, "skipped": total.skipped,
        "next_cursor": total.next_cursor, "searched_until": until,
    });
    print_json(&answer.to_string())
}

fn sentence(verb: Verb, selection: &Selection, total: &Total) -> String {
    let count = |number: u64| format!("{number} task{}", if number == 1 { "" } else { "s" });
    let tasks = count(total.tasks);
    let mut sentence = match (selection.dry_run, &total.next_cursor) {
        (true, Some(_)) => format!("at least {tasks} would be {}", verb.done()),
        (true, None) => format!("{tasks} would be {}", verb.done()),
        (false, _) => format!("{tasks} {}", verb.done()),
    };
    if selection.dry_run && verb == Verb::Cancel && total.tasks > 0 {
        sentence.push_str(", with everything below them");
    } else if total.below > 0 {
        sentence.push_str(&format!(", and {} below them", total.below));
    }
    for (reason, tasks) in &total.skipped {
        sentence.push_str(&format!(", {tasks} left alone ({})", reason.replace('_', " ")));
    }
    sentence
}

impl Verb {
    /// The last segment of the path.
    fn word(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Retry => "retry",
        }
    }

    fn doing(self) -> &'static str {
        match self {
            Self::Cancel => "cancelling",
            Self::Retry => "retrying",
        }
    }

    fn done(self) -> &'static str {
        match self {
            Self::Cancel => "cancelled",
            Self::Retry => "retried",
        }
    }
}
