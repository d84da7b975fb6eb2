//! `adjutant audit`: who has changed what.

use std::process::ExitCode;

use adjutant_store::{AuditEntry, AuditFilter, Store};
use chrono::{DateTime, Utc};
use clap::Args;
use serde_json::{Value, json};

use crate::commands::database_args::DatabaseArgs;
use crate::moment::{age, as_rfc3339, parse_time};
use crate::output::{Shown, note, print_json, print_line};
use crate::table::{Column, OutputStyle, table};

/// List who has changed what, newest first: cancels, retries, deletions, keys, secrets, limits
///
/// Works on the database directly and shows all tenants. A tenant's admin sees its own part with
/// GET /v1/audit. It contains no texts of tasks. Entries are kept for 400 days.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant audit --since 2h
  adjutant audit --tenant team-a --action task.cancel
  adjutant audit --action key.create --json | jq -r '.entries[] | .actor'
")]
pub struct Arguments {
    /// Only changes since this time: a time, or a duration ago (2h, 3d)
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    since: Option<DateTime<Utc>>,

    /// Only changes of this tenant's things [default: all, and the fleet's]
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,

    /// Only this action: task.cancel, task.retry, session.archive, session.delete, limits.cap,
    /// key.create, key.revoke, tenant.archive, tenant.unarchive, webhook_secret.rotate,
    /// webhook_secret.revoke
    #[arg(long, value_name = "ACTION")]
    action: Option<String>,

    /// The most entries to show
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    limit: u16,

    #[command(flatten)]
    database: DatabaseArgs,

    /// Print one JSON object: entries
    #[arg(long)]
    json: bool,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let store = Store::open(&arguments.database.url()?, 2).await?;
    let filter = AuditFilter {
        tenant: arguments.tenant,
        action: arguments.action,
        since: arguments.since,
        before: None,
    };
    let entries = store.audit(&filter, arguments.limit.into()).await?;
    store.close().await;
    if arguments.json {
        print_json(&json!({ "entries": entries }).to_string())?;
    } else if entries.is_empty() {
        note!("adjutant: no changes");
    } else {
        print_line(as_table(&entries, Utc::now(), OutputStyle::for_stdout()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn as_table(entries: &[AuditEntry], now: DateTime<Utc>, style: OutputStyle) -> Shown {
    let columns = [
        Column::Number("AGE"),
        Column::Word("ACTION"),
        Column::Word("TENANT"),
        Column::Name("ACTOR"),
        Column::Word("FROM"),
        Column::Name("SUBJECT"),
        Column::Text("BEFORE"),
        Column::Text("AFTER"),
    ];
    let row = |entry: &AuditEntry| {
        vec![
            age(&as_rfc3339(entry.at), now),
            entry.action.clone(),
            entry.tenant.clone().unwrap_or_default(),
            entry.actor.clone(),
            entry.address.clone().unwrap_or_else(|| entry.source.clone()),
            entry.subject.clone(),
            fields(entry.before.as_ref()),
            fields(entry.after.as_ref()),
        ]
    };
    table(&columns, &entries.iter().map(row).collect::<Vec<_>>(), style)
}

/// The fields of an object in one cell, as `cap=20`.
fn fields(value: Option<&Value>) -> String {
    let shown = |(name, value): (&String, &Value)| match value.as_str() {
        Some(text) => format!("{name}={text}"),
        None => format!("{name}={value}"),
    };
    let fields = value.and_then(Value::as_object).into_iter().flatten();
    fields.map(shown).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Colors;

    #[test]
    fn changes_are_a_table_of_who_and_what() {
        let now = parse_time("2026-07-02T00:00:00Z").unwrap();
        let entry = AuditEntry {
            id: 1,
            at: now - chrono::TimeDelta::minutes(3),
            tenant: None,
            action: "limits.cap".to_owned(),
            subject: "fleet".to_owned(),
            before: Some(json!({"cap": 5})),
            after: Some(json!({"cap": 20})),
            source: "cli".to_owned(),
            key: None,
            actor: "ada".to_owned(),
            actor_tenant: None,
            address: None,
        };
        let shown = as_table(&[entry], now, OutputStyle { width: 120, colors: Colors::Off });
        assert_eq!(
            shown.lines().collect::<Vec<_>>(),
            [
                "AGE  ACTION      TENANT  ACTOR  FROM  SUBJECT  BEFORE  AFTER",
                " 3m  limits.cap          ada    cli   fleet    cap=5   cap=20",
            ]
        );
    }
}
