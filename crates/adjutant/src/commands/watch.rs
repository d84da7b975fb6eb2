//! `adjutant watch`: what happens, while it happens.

mod lines;
mod snapshot;
mod view;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use chrono::Utc;
use clap::Args;

use crate::client::{CallError, Client, Form, Reached};
use crate::commands::reach::Reach;
use crate::exit::{Exit, examples};
use crate::moment::read_span;
use crate::output::print_line;
use crate::signals::Signals;
use crate::table::Look;
use lines::Changes;
use snapshot::Snapshot;

/// Watch the queue, the workers and the tasks
///
/// On a terminal it is a view that renews itself until Ctrl-C. Elsewhere it prints a line whenever a task changes its state or has
/// had a turn. It goes on by itself after the server was away.
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant watch
  adjutant watch --session nightly
  adjutant watch --once                    one look, for a script or a report
  adjutant watch | grep --line-buffered failed
  adjutant watch --json | jq -r 'select(.state == \"failed\") | .id'
"))]
pub struct Arguments {
    /// Only tasks of this session [default: of all]
    #[arg(long, short, value_name = "SESSION")]
    session: Option<String>,

    /// Between two looks: 1, 5s, 1m
    #[arg(long, value_name = "TIME", default_value = "1", value_parser = read_span)]
    every: Duration,

    /// Look once, print the view and end
    #[arg(long)]
    once: bool,

    #[command(flatten)]
    reach: Reach,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let client = arguments.reach.client()?;
    let session = arguments.session.as_deref();
    let first = Snapshot::take(&client, session, &[]).await?;
    if arguments.once {
        match client.form() {
            Form::Json => print_line(&first.as_json())?,
            Form::Plain => {
                let page = view::Page { url: &client.url(), now: Utc::now(), rows: usize::MAX };
                print_line(&view::render(&first, &page, Look::of_stdout()))?;
            }
        }
        return Ok(Exit::Done.into());
    }
    // Ctrl-C is how one ends it.
    let mut signals = Signals::listen()?;
    let watching = async {
        if std::io::stdout().is_terminal() && client.form() == Form::Plain {
            draw(&client, session, arguments.every, first).await
        } else {
            tell(&client, session, arguments.every, first).await
        }
    };
    tokio::select! {
        ended = watching => ended?,
        _ = signals.next() => {}
    }
    Ok(Exit::Done.into())
}

/// One line for each change, for as long as somebody reads them.
async fn tell(
    client: &Client,
    session: Option<&str>,
    every: Duration,
    first: Snapshot,
) -> anyhow::Result<()> {
    let mut changes = Changes::default();
    let mut snapshot = first;
    let mut away = Away::default();
    loop {
        for task in changes.since(&snapshot) {
            print_line(&match client.form() {
                Form::Json => task.to_string(),
                Form::Plain => lines::line(task),
            })?;
        }
        tokio::time::sleep(every).await;
        match Snapshot::take(client, session, &changes.unfinished()).await {
            Ok(taken) => {
                snapshot = taken;
                away.is_over();
            }
            Err(error) => away.because_of(error)?,
        }
    }
}

/// Says once that the server is away, and once that it is there again.
#[derive(Default)]
struct Away(bool);

impl Away {
    fn because_of(&mut self, error: CallError) -> anyhow::Result<()> {
        if !error.is_passing(Reached::Before) {
            return Err(error.into());
        }
        if !self.0 {
            eprintln!("adjutant: {error}; trying again");
        }
        self.0 = true;
        Ok(())
    }

    fn is_over(&mut self) {
        if std::mem::take(&mut self.0) {
            eprintln!("adjutant: the server is there again");
        }
    }
}

/// A view that takes the whole terminal.
async fn draw(
    client: &Client,
    session: Option<&str>,
    every: Duration,
    first: Snapshot,
) -> anyhow::Result<()> {
    let screen = Screen::open()?;
    let (mut snapshot, mut trouble) = (first, None);
    let url = client.url();
    loop {
        let (rows, _) = console::Term::stdout().size();
        let page = view::Page { url: &url, now: Utc::now(), rows: usize::from(rows) };
        let mut text = view::render(&snapshot, &page, Look::of_stdout());
        if let Some(trouble) = &trouble {
            text = format!("{trouble}; trying again\n{text}");
        }
        screen.show(&text)?;
        tokio::time::sleep(every).await;
        trouble = match Snapshot::take(client, session, &[]).await {
            Ok(taken) => {
                snapshot = taken;
                None
            }
            Err(error) if error.is_passing(Reached::Before) => Some(error.to_string()),
            Err(error) => return Err(error.into()),
        };
    }
}

/// The terminal's second screen; the first comes back as it was.
struct Screen;

impl Screen {
    fn open() -> anyhow::Result<Self> {
        write!(std::io::stdout(), "\u{1b}[?1049h\u{1b}[?25l").context("cannot write to the terminal")?;
        Ok(Self)
    }

    /// Over what was there, line by line: clearing first would flicker.
    fn show(&self, text: &str) -> anyhow::Result<()> {
        let lines: String = text.lines().map(|line| format!("{line}\u{1b}[K\r\n")).collect();
        let mut out = std::io::stdout();
        write!(out, "\u{1b}[H{}\u{1b}[J", lines.trim_end_matches("\r\n"))
            .and_then(|()| out.flush())
            .context("cannot write to the terminal")
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // There is nobody left to tell.
        let mut out = std::io::stdout();
        let _ = write!(out, "\u{1b}[?25h\u{1b}[?1049l").and_then(|()| out.flush());
    }
}
