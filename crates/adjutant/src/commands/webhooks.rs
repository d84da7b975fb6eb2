//! `adjutant webhooks`: deliveries of webhooks, and the secrets that sign them.

use std::process::ExitCode;
use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::client::OutputFormat;
use crate::commands::server_args::{ServerArgs, print_answer};
use crate::exit::{Exit, examples};
use crate::moment::{age, parse_duration};
use crate::output::{Shown, note};
use crate::table::{Column, OutputStyle, items, table, text};

/// List webhook deliveries, newest first; redeliver; rotate the signing secret
///
/// Tasks get a webhook with `adjutant spawn --webhook URL`, sessions over HTTP. docs/webhooks.md
/// explains how to verify a delivery.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_long_help = examples!("  adjutant webhooks                            all deliveries
  adjutant webhooks --state failed             failed deliveries
  adjutant webhooks redeliver 0198c0de-0000-7000-8000-000000000001
  adjutant webhooks rotate                     create a new secret; the old one stays valid for a day
"))]
pub struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,

    #[command(flatten)]
    list: List,
}

#[derive(Debug, Args)]
struct List {
    /// Only deliveries in this state
    #[arg(long, value_name = "STATE", value_parser = ["pending", "delivered", "failed"])]
    state: Option<String>,

    /// Only deliveries of this session [default: all]
    #[arg(long, short, value_name = "SESSION")]
    session: Option<String>,

    /// The most entries to show
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
    limit: u16,

    /// Show the page after this cursor, the next_cursor of the previous page
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,

    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Subcommand)]
enum Action {
    Redeliver(Redeliver),
    Rotate(Rotate),
    Secrets(Secrets),
}

/// Send a delivery again, with the same id
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant webhooks redeliver 0198c0de-0000-7000-8000-000000000001\n"))]
struct Redeliver {
    /// The id of the delivery, as shown in the list and sent to the receiver
    #[arg(value_name = "ID")]
    id: String,

    #[command(flatten)]
    server: ServerArgs,
}

/// Create a new signing secret and print it once
///
/// Until the overlap ends, deliveries are signed with the old secret too. Needs a key with the
/// scope admin.
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant webhooks rotate
  adjutant webhooks rotate --overlap 0s        revoke the old secret at once
"))]
struct Rotate {
    /// How long the old secret stays valid: 90s, 15m, 24h [default: 24h]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    overlap: Option<Duration>,

    /// The secret to use: whsec_ and 24 to 64 bytes in base64; pass it in the environment to keep
    /// it out of process lists
    #[arg(long, env = "ADJUTANT_WEBHOOK_SECRET", value_name = "SECRET", hide_env_values = true)]
    secret: Option<String>,

    #[command(flatten)]
    server: ServerArgs,
}

/// List the valid secrets, without their values
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant webhooks secrets\n"))]
struct Secrets {
    #[command(flatten)]
    server: ServerArgs,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.action {
        None => list(arguments.list).await,
        Some(Action::Redeliver(arguments)) => redeliver(arguments).await,
        Some(Action::Rotate(arguments)) => rotate(arguments).await,
        Some(Action::Secrets(arguments)) => secrets(arguments).await,
    }
}

async fn list(arguments: List) -> anyhow::Result<ExitCode> {
    let client = arguments.server.client()?;
    let query = [
        ("state", arguments.state),
        ("session", arguments.session),
        ("cursor", arguments.cursor),
        ("limit", Some(arguments.limit.to_string())),
    ];
    let query = query.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let answer = client.get(&["v1", "webhooks", "deliveries"], query.collect()).await?;
    let deliveries = items(&answer.value, "deliveries");
    print_answer(&client, &answer, || match deliveries {
        [] => Shown::default(),
        deliveries => as_table(deliveries, Utc::now(), OutputStyle::for_stdout()),
    })?;
    if client.format() == OutputFormat::Text {
        match (deliveries.is_empty(), text(&answer.value, "next_cursor")) {
            (true, _) => note!("adjutant: no deliveries"),
            (false, next) if !next.is_empty() => {
                note!("adjutant: more with --cursor {next}")
            }
            (false, _) => {}
        }
    }
    Ok(Exit::Done.into())
}

fn as_table(deliveries: &[Value], now: DateTime<Utc>, style: OutputStyle) -> Shown {
    let columns = [
        Column::Word("ID"),
        Column::Name("SESSION"),
        Column::Word("TASK"),
        Column::Word("EVENT"),
        Column::State("STATE"),
        Column::Number("TRIES"),
        Column::Number("AGE"),
        Column::Line("LAST"),
    ];
    let row = |delivery: &Value| {
        let last = match text(delivery, "last_error") {
            error if error.is_empty() => text(delivery, "last_status"),
            error => error,
        };
        vec![
            text(delivery, "id"),
            text(delivery, "session_id"),
            text(delivery, "task_id"),
            text(delivery, "event"),
            text(delivery, "state"),
            text(delivery, "tries"),
            age(&text(delivery, "created_at"), now),
            last,
        ]
    };
    table(&columns, &deliveries.iter().map(row).collect::<Vec<_>>(), style)
}

async fn redeliver(arguments: Redeliver) -> anyhow::Result<ExitCode> {
    let client = arguments.server.client()?;
    let path = ["v1", "webhooks", "deliveries", &arguments.id, "redeliver"];
    let answer = client.post(&path, json!({})).await?;
    print_answer(&client, &answer, || format!("{} will be sent again.", arguments.id))?;
    Ok(Exit::Done.into())
}

async fn rotate(arguments: Rotate) -> anyhow::Result<ExitCode> {
    let client = arguments.server.client()?;
    let mut body = Map::new();
    body.extend(
        arguments.overlap.map(|overlap| ("overlap_s".to_owned(), json!(overlap.as_secs_f64()))),
    );
    let given = arguments.secret.filter(|secret| !secret.is_empty());
    body.extend(given.map(|secret| ("secret".to_owned(), json!(secret))));
    let answer = client.post(&["v1", "webhooks", "secrets"], Value::Object(body)).await?;
    print_answer(&client, &answer, || text(&answer.value, "secret"))?;
    if client.format() == OutputFormat::Text && answer.value.get("secret").is_some() {
        note!(
            "adjutant: this secret is shown only once; receivers verify webhook-signature with it"
        );
    }
    Ok(Exit::Done.into())
}

async fn secrets(arguments: Secrets) -> anyhow::Result<ExitCode> {
    let client = arguments.server.client()?;
    let answer = client.get(&["v1", "webhooks", "secrets"], Vec::new()).await?;
    let secrets = items(&answer.value, "secrets");
    let row = |secret: &Value| {
        vec![
            text(secret, "id"),
            age(&text(secret, "created_at"), Utc::now()),
            text(secret, "expires_at"),
        ]
    };
    print_answer(&client, &answer, || match secrets {
        [] => Shown::default(),
        secrets => table(
            &[Column::Word("ID"), Column::Number("AGE"), Column::Word("VALID UNTIL")],
            &secrets.iter().map(row).collect::<Vec<_>>(),
            OutputStyle::for_stdout(),
        ),
    })?;
    if client.format() == OutputFormat::Text && secrets.is_empty() {
        note!("adjutant: no secret yet; `adjutant webhooks rotate` creates one");
    }
    Ok(Exit::Done.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::parse_time;
    use crate::table::Colors;

    #[test]
    fn deliveries_are_a_table_with_their_last_error() {
        let delivery = |state: &str, status: Value, error: Value| {
            json!({"id": "0198c0de-0000-7000-8000-000000000001", "session_id": "shop", "task_id": "t_01",
                "event": "task.failed", "state": state, "tries": 2, "last_status": status, "last_error": error,
                "created_at": "2026-07-01T00:00:00.000Z"})
        };
        let deliveries = [
            delivery("delivered", json!(204), Value::Null),
            delivery("pending", json!(500), json!("The receiver answered 500.")),
        ];
        let now = parse_time("2026-07-02T00:00:00Z").unwrap();
        let shown = as_table(&deliveries, now, OutputStyle { width: 140, colors: Colors::Off });
        assert_eq!(
            shown.lines().collect::<Vec<_>>(),
            [
                "ID                                    SESSION  TASK  EVENT        STATE      TRIES  AGE  LAST",
                "0198c0de-0000-7000-8000-000000000001  shop     t_01  task.failed  delivered      2   1d  204",
                "0198c0de-0000-7000-8000-000000000001  shop     t_01  task.failed  pending        2   1d  The receiver answered 500.",
            ]
        );
    }
}
