//! `adjutant webhooks`: what was told of the ends of tasks, and what it is signed with.

use std::process::ExitCode;
use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::client::Form;
use crate::commands::reach::{Reach, show};
use crate::exit::{Exit, examples};
use crate::moment::{ago, read_span};
use crate::table::{Column, Look, items, table, text};

/// List what webhooks were told, the newest first; send it again; change the secret that signs it
///
/// Webhooks are given to tasks (`adjutant spawn --webhook URL`) and to sessions over HTTP; docs/webhooks.md says how to check them.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_long_help = examples!("  adjutant webhooks                            what was told, and what is yet to be
  adjutant webhooks --state failed             what nobody took
  adjutant webhooks redeliver 0198c0de-0000-7000-8000-000000000001
  adjutant webhooks rotate                     a new secret, shown once; the old one is good for another day
"))]
pub struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,

    #[command(flatten)]
    list: List,
}

#[derive(Debug, Args)]
struct List {
    /// pending, delivered or failed
    #[arg(long, value_name = "STATE", value_parser = ["pending", "delivered", "failed"])]
    state: Option<String>,

    /// Of this session [default: of all]
    #[arg(long, short, value_name = "SESSION")]
    session: Option<String>,

    /// The most to show
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
    limit: u16,

    /// Go on where a page ended: its next_cursor
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,

    #[command(flatten)]
    reach: Reach,
}

#[derive(Debug, Subcommand)]
enum Action {
    Redeliver(Redeliver),
    Rotate(Rotate),
    Secrets(Secrets),
}

/// Send a delivery once more, under the same id
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant webhooks redeliver 0198c0de-0000-7000-8000-000000000001\n"))]
struct Redeliver {
    /// Its id, as the list and the receiver have it
    #[arg(value_name = "ID")]
    id: String,

    #[command(flatten)]
    reach: Reach,
}

/// Make a new secret to sign with, and print it, once
///
/// Until the overlap is over, every delivery is signed with the old one too. Needs a key with the scope admin.
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant webhooks rotate
  adjutant webhooks rotate --overlap 0s        the old one was seen by others
"))]
struct Rotate {
    /// How long the old one is good beside it: 90s, 15m, 24h [default: 24h]
    #[arg(long, value_name = "TIME", value_parser = read_span)]
    overlap: Option<Duration>,

    /// Use this one: whsec_ and 24 to 64 bytes in base64; better in the environment, where others do not see it
    #[arg(long, env = "ADJUTANT_WEBHOOK_SECRET", value_name = "SECRET", hide_env_values = true)]
    secret: Option<String>,

    #[command(flatten)]
    reach: Reach,
}

/// List the secrets that are good now, without the secrets themselves
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant webhooks secrets\n"))]
struct Secrets {
    #[command(flatten)]
    reach: Reach,
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
    let client = arguments.reach.client()?;
    let query = [
        ("state", arguments.state),
        ("session", arguments.session),
        ("cursor", arguments.cursor),
        ("limit", Some(arguments.limit.to_string())),
    ];
    let query = query.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let answer = client.get(&["v1", "webhooks", "deliveries"], query.collect()).await?;
    let deliveries = items(&answer.value, "deliveries");
    show(&client, &answer, || match deliveries {
        [] => String::new(),
        deliveries => as_table(deliveries, Utc::now(), Look::of_stdout()),
    })?;
    if client.form() == Form::Plain {
        match (deliveries.is_empty(), text(&answer.value, "next_cursor")) {
            (true, _) => eprintln!("adjutant: no webhook was told anything"),
            (false, next) if !next.is_empty() => eprintln!("adjutant: there are more: --cursor {next}"),
            (false, _) => {}
        }
    }
    Ok(Exit::Done.into())
}

fn as_table(deliveries: &[Value], now: DateTime<Utc>, look: Look) -> String {
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
            ago(&text(delivery, "created_at"), now),
            last,
        ]
    };
    table(&columns, &deliveries.iter().map(row).collect::<Vec<_>>(), look)
}

async fn redeliver(arguments: Redeliver) -> anyhow::Result<ExitCode> {
    let client = arguments.reach.client()?;
    let path = ["v1", "webhooks", "deliveries", &arguments.id, "redeliver"];
    let answer = client.post(&path, json!({})).await?;
    show(&client, &answer, || format!("{} is sent again.", arguments.id))?;
    Ok(Exit::Done.into())
}

async fn rotate(arguments: Rotate) -> anyhow::Result<ExitCode> {
    let client = arguments.reach.client()?;
    let mut body = Map::new();
    body.extend(arguments.overlap.map(|overlap| ("overlap_s".to_owned(), json!(overlap.as_secs_f64()))));
    let given = arguments.secret.filter(|secret| !secret.is_empty());
    body.extend(given.map(|secret| ("secret".to_owned(), json!(secret))));
    let answer = client.post(&["v1", "webhooks", "secrets"], Value::Object(body)).await?;
    show(&client, &answer, || text(&answer.value, "secret"))?;
    if client.form() == Form::Plain && answer.value.get("secret").is_some() {
        eprintln!("adjutant: this secret is shown this once; receivers check webhook-signature with it");
    }
    Ok(Exit::Done.into())
}

async fn secrets(arguments: Secrets) -> anyhow::Result<ExitCode> {
    let client = arguments.reach.client()?;
    let answer = client.get(&["v1", "webhooks", "secrets"], Vec::new()).await?;
    let secrets = items(&answer.value, "secrets");
    let row = |secret: &Value| {
        vec![text(secret, "id"), ago(&text(secret, "created_at"), Utc::now()), text(secret, "expires_at")]
    };
    show(&client, &answer, || match secrets {
        [] => String::new(),
        secrets => table(
            &[Column::Word("ID"), Column::Number("AGE"), Column::Word("GOOD UNTIL")],
            &secrets.iter().map(row).collect::<Vec<_>>(),
            Look::of_stdout(),
        ),
    })?;
    if client.form() == Form::Plain && secrets.is_empty() {
        eprintln!("adjutant: no secret yet: `adjutant webhooks rotate` makes one");
    }
    Ok(Exit::Done.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::read_moment;
    use crate::table::Paint;

    #[test]
    fn deliveries_are_a_table_with_what_went_wrong() {
        let delivery = |state: &str, status: Value, error: Value| {
            json!({"id": "0198c0de-0000-7000-8000-000000000001", "session_id": "shop", "task_id": "t_01",
                "event": "task.failed", "state": state, "tries": 2, "last_status": status, "last_error": error,
                "created_at": "2026-07-01T00:00:00.000Z"})
        };
        let deliveries = [
            delivery("delivered", json!(204), Value::Null),
            delivery("pending", json!(500), json!("It answered 500.")),
        ];
        let now = read_moment("2026-07-02T00:00:00Z").unwrap();
        let shown = as_table(&deliveries, now, Look { width: 140, paint: Paint::Plain });
        assert_eq!(
            shown.lines().collect::<Vec<_>>(),
            [
                "ID                                    SESSION  TASK  EVENT        STATE      TRIES  AGE  LAST",
                "0198c0de-0000-7000-8000-000000000001  shop     t_01  task.failed  delivered      2   1d  204",
                "0198c0de-0000-7000-8000-000000000001  shop     t_01  task.failed  pending        2   1d  It answered 500.",
            ]
        );
    }
}
