//! `adjutant watch`: shows changes as they happen.

mod changes;
mod snapshot;
mod view;

use std::process::ExitCode;
use std::time::Duration;

use chrono::Utc;
use clap::Args;

use crate::client::{CallError, Client, OutputFormat, Reached};
use crate::commands::server_args::ServerArgs;
use crate::exit::{Exit, examples};
use crate::moment::parse_duration;
use crate::output::{
    AlternateScreen, Shown, note, print_json, print_line, stdout_is_terminal, terminal_size,
};
use crate::signals::Signals;
use crate::table::OutputStyle;
use changes::Changes;
use snapshot::Snapshot;

/// Watch the queue, the workers and the tasks
///
/// On a terminal it is a view that refreshes until Ctrl-C. Otherwise it prints a line whenever a
/// task changes its state, waits for something else or finishes a turn. It reconnects after the
/// server was unreachable.
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant watch
  adjutant watch --session nightly
  adjutant watch --once                    print the view once
  adjutant watch | grep --line-buffered failed
  adjutant watch --json | jq -r 'select(.state == \"failed\") | .id'
"))]
pub struct Arguments {
    /// Only tasks of this session [default: all]
    #[arg(long, short, value_name = "SESSION")]
    session: Option<String>,

    /// The time between two updates: 1, 5s, 1m
    #[arg(long, value_name = "TIME", default_value = "1", value_parser = parse_duration)]
    every: Duration,

    /// Print the view once and exit
    #[arg(long)]
    once: bool,

    #[command(flatten)]
    server: ServerArgs,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = arguments.server.client()?;
    let session = arguments.session.as_deref();
    let first = Snapshot::take(&client, session, &[]).await?;
    if arguments.once {
        match client.format() {
            OutputFormat::Json => print_json(&first.as_json())?,
            OutputFormat::Text => {
                let context =
                    view::ViewContext { url: &client.url(), now: Utc::now(), rows: usize::MAX };
                print_line(view::render(&first, &context, OutputStyle::for_stdout()))?;
            }
        }
        return Ok(Exit::Done.into());
    }
    // Ctrl-C is the normal way to end it.
    let mut signals = Signals::listen()?;
    let watching = async {
        if stdout_is_terminal() && client.format() == OutputFormat::Text {
            draw(&client, session, arguments.every, first).await
        } else {
            print_changes(&client, session, arguments.every, first).await
        }
    };
    tokio::select! {
        ended = watching => ended?,
        _ = signals.next() => {}
    }
    Ok(Exit::Done.into())
}

/// Prints a line for each change until standard output is closed.
async fn print_changes(
    client: &Client,
    session: Option<&str>,
    interval: Duration,
    first: Snapshot,
) -> anyhow::Result<()> {
    let mut changes = Changes::default();
    let mut snapshot = first;
    let mut outage = OutageNotice::default();
    loop {
        for task in changes.since(&snapshot) {
            match client.format() {
                OutputFormat::Json => print_json(&task.to_string())?,
                OutputFormat::Text => print_line(changes::line(task))?,
            }
        }
        tokio::time::sleep(interval).await;
        match Snapshot::take(client, session, &changes.unfinished()).await {
            Ok(taken) => {
                snapshot = taken;
                outage.clear();
            }
            Err(error) => outage.report(error)?,
        }
    }
}

/// Reports once that the server is unreachable, and once that it is back.
#[derive(Default)]
struct OutageNotice(bool);

impl OutageNotice {
    fn report(&mut self, error: CallError) -> anyhow::Result<()> {
        if !error.is_transient(Reached::Before) {
            return Err(error.into());
        }
        if !self.0 {
            note!("adjutant: {error}; retrying");
        }
        self.0 = true;
        Ok(())
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.0) {
            note!("adjutant: the server is back");
        }
    }
}

/// A view that fills the terminal.
async fn draw(
    client: &Client,
    session: Option<&str>,
    interval: Duration,
    first: Snapshot,
) -> anyhow::Result<()> {
    let screen = AlternateScreen::open()?;
    let (mut snapshot, mut problem) = (first, None);
    let url = client.url();
    loop {
        let (rows, _) = terminal_size();
        let context = view::ViewContext { url: &url, now: Utc::now(), rows: usize::from(rows) };
        let mut text = view::render(&snapshot, &context, OutputStyle::for_stdout());
        if let Some(problem) = &problem {
            text = Shown::from(format!("{problem}; retrying")).above(text);
        }
        screen.show(&text)?;
        tokio::time::sleep(interval).await;
        problem = match Snapshot::take(client, session, &[]).await {
            Ok(taken) => {
                snapshot = taken;
                None
            }
            Err(error) if error.is_transient(Reached::Before) => Some(error.to_string()),
            Err(error) => return Err(error.into()),
        };
    }
}
