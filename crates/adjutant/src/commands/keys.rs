//! `adjutant keys`: the API keys of the server.

use std::process::ExitCode;

use adjutant_agent::Grants;
use adjutant_store::{ApiKey, NewKey, Store};
use chrono::{DateTime, TimeDelta, Utc};
use clap::{Args, Subcommand};
use serde_json::json;
use uuid::Uuid;

use crate::commands::database_args::DatabaseArgs;
use crate::exit::{CommandError, Exit};
use crate::moment::{age, as_rfc3339, parse_duration, parse_time};
use crate::output::{Shown, note, print_json, print_line};
use crate::table::{Column, OutputStyle, table};

/// Create, list and revoke API keys
///
/// Works on the database directly, because the first key cannot be created over HTTP. The database
/// stores only digests: a key is shown once, when it is created. When at least one key exists,
/// every call needs one.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant keys create laptop
  adjutant keys create dashboard --scope read --expires 30d
  adjutant keys create crawler --tools 'fetch,shared_context' --models main --agents 'research*'
  export ADJUTANT_API_KEY=$(adjutant keys create ci --tenant team-a --quiet)
  adjutant keys list --tenant team-a
  adjutant keys revoke 0198c0de-0000-7000-8000-000000000001
")]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Create(Create),
    List(List),
    Revoke(Revoke),
}

/// Create a key and print it once
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant keys create laptop
  adjutant keys create dashboard --scope read --expires 30d
  export ADJUTANT_API_KEY=$(adjutant keys create ci --tenant team-a --quiet)
")]
struct Create {
    /// A name for the key
    #[arg(value_name = "NAME")]
    name: String,

    /// The tenant whose sessions and tasks the key gives access to
    #[arg(long, value_name = "TENANT", default_value = "default")]
    tenant: String,

    /// What the key permits: delegate (sessions, agents, tasks), read (history), admin (everything)
    #[arg(long = "scope", value_name = "SCOPE", value_delimiter = ',', default_value = "delegate,read", value_parser = ["delegate", "read", "admin"])]
    scopes: Vec<String>,

    #[command(flatten)]
    grants: GrantArgs,

    /// When the key expires: a time, or a duration from now (30d) [default: never]
    #[arg(long, value_name = "TIME", value_parser = parse_expiry)]
    expires: Option<DateTime<Utc>>,

    /// Print the key and nothing else
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,

    #[command(flatten)]
    database: DatabaseArgs,

    /// Print one JSON object: the key's entry of `list`, and the key as `secret`
    #[arg(long)]
    json: bool,
}

/// What the key may use
#[derive(Debug, Args)]
struct GrantArgs {
    /// The tools that its tasks may use: names or patterns with *, separated by commas [default:
    /// all]
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',')]
    tools: Option<Vec<String>>,

    /// The models that it may use [default: all]
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',')]
    models: Option<Vec<String>>,

    /// The agents that it may use and define [default: all]
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',')]
    agents: Option<Vec<String>>,

    /// The pools that its tasks may run in [default: all]
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',')]
    pools: Option<Vec<String>>,
}

impl From<GrantArgs> for Grants {
    fn from(GrantArgs { tools, models, agents, pools }: GrantArgs) -> Self {
        let trimmed = |patterns: Vec<String>| -> Vec<String> {
            patterns.iter().map(|pattern| pattern.trim().to_owned()).collect()
        };
        let [tools, models, agents, pools] =
            [tools, models, agents, pools].map(|patterns| patterns.map(trimmed));
        Self { tools, models, agents, pools }
    }
}

/// List the keys, without their secrets
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant keys list
  adjutant keys list --tenant team-a --json | jq -r '.keys[] | select(.revoked_at == null) | .id'
")]
struct List {
    /// Only keys of this tenant [default: all]
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,

    #[command(flatten)]
    database: DatabaseArgs,

    /// Print one JSON object: keys
    #[arg(long)]
    json: bool,
}

/// Revoke a key: every server refuses it within seconds
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant keys revoke 0198c0de-0000-7000-8000-000000000001
")]
struct Revoke {
    /// The id of the key, as shown by `list`; not the key itself
    #[arg(value_name = "ID")]
    id: Uuid,

    #[command(flatten)]
    database: DatabaseArgs,

    /// Print one JSON object: the key's entry of `list`
    #[arg(long)]
    json: bool,
}

/// Unlike elsewhere, a duration is in the future.
fn parse_expiry(text: &str) -> Result<DateTime<Utc>, String> {
    let ahead = parse_duration(text).ok().and_then(|span| TimeDelta::from_std(span).ok());
    match ahead.and_then(|ahead| Utc::now().checked_add_signed(ahead)) {
        Some(moment) => Ok(moment),
        None => parse_time(text),
    }
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.action {
        Action::Create(arguments) => create(arguments).await?,
        Action::List(arguments) => list(arguments).await?,
        Action::Revoke(arguments) => revoke(arguments).await?,
    }
    Ok(Exit::Done.into())
}

async fn create(arguments: Create) -> anyhow::Result<()> {
    let store = arguments.database.open_as_user().await?;
    let new = NewKey {
        tenant: arguments.tenant,
        name: arguments.name,
        scopes: arguments.scopes,
        grants: arguments.grants.into(),
        expires_at: arguments.expires,
    };
    let (key, secret) = store.create_key(&new).await?;
    store.close().await;
    if arguments.json {
        let mut about = serde_json::to_value(&key)?;
        about["secret"] = json!(secret);
        return print_json(&about.to_string());
    }
    print_line(&secret)?;
    if !arguments.quiet {
        note!(
            "adjutant: key {} is shown only once. Use it with: export ADJUTANT_API_KEY=...",
            key.id
        );
    }
    Ok(())
}

async fn list(arguments: List) -> anyhow::Result<()> {
    let store = Store::open(&arguments.database.url()?, 2).await?;
    let keys = store.keys(arguments.tenant.as_deref()).await?;
    store.close().await;
    if arguments.json {
        return print_json(&json!({ "keys": keys }).to_string());
    }
    if keys.is_empty() {
        note!(
            "adjutant: no keys yet; a server that listens only on this machine accepts every call"
        );
        return Ok(());
    }
    print_line(as_table(&keys, Utc::now(), OutputStyle::for_stdout()))
}

async fn revoke(arguments: Revoke) -> anyhow::Result<()> {
    let store = arguments.database.open_as_user().await?;
    let revoked = store.revoke_key(arguments.id).await;
    store.close().await;
    let key = match revoked {
        Err(adjutant_store::Error::Refused(refusal)) => {
            return Err(CommandError { exit: Exit::NotFound, message: refusal.message }.into());
        }
        revoked => revoked?,
    };
    if arguments.json {
        print_json(&serde_json::to_string(&key)?)
    } else {
        print_line(format!("The key {} of {} was revoked.", key.name, key.tenant))
    }
}

fn as_table(keys: &[ApiKey], now: DateTime<Utc>, style: OutputStyle) -> Shown {
    let columns = [
        Column::Word("ID"),
        Column::Word("TENANT"),
        Column::Text("NAME"),
        Column::Word("SCOPES"),
        Column::Text("GRANTS"),
        Column::State("STATE"),
        Column::Number("AGE"),
        Column::Number("USED"),
    ];
    let row = |key: &ApiKey| {
        let state = match (key.revoked_at, key.expires_at) {
            (Some(_), _) => "revoked".to_owned(),
            (None, Some(at)) if at <= now => "expired".to_owned(),
            (None, Some(at)) => format!("ok until {}", at.format("%Y-%m-%d")),
            (None, None) => "ok".to_owned(),
        };
        vec![
            key.id.to_string(),
            key.tenant.clone(),
            key.name.clone(),
            key.scopes.join(","),
            key.grants.as_deref().map(shown).unwrap_or_default(),
            state,
            age(&as_rfc3339(key.created_at), now),
            key.last_used_at.map(|at| age(&as_rfc3339(at), now)).unwrap_or_default(),
        ]
    };
    table(&columns, &keys.iter().map(row).collect::<Vec<_>>(), style)
}

/// The limits of a key in one cell; empty if it may use everything.
fn shown(grants: &Grants) -> String {
    let Grants { tools, models, agents, pools } = grants;
    let lists = [("tools", tools), ("models", models), ("agents", agents), ("pools", pools)];
    let part = |(kind, patterns): (&str, &Option<Vec<String>>)| {
        Some(format!("{kind}={}", patterns.as_ref()?.join(",")))
    };
    lists.into_iter().filter_map(part).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Colors;

    #[test]
    fn an_expiry_is_in_the_future() {
        assert!(parse_expiry("30d").unwrap() > Utc::now() + TimeDelta::days(29));
        assert_eq!(as_rfc3339(parse_expiry("2027-01-01").unwrap()), "2027-01-01T00:00:00.000Z");
        assert!(parse_expiry("soon").is_err());
    }

    #[test]
    fn keys_are_a_table_without_secrets() {
        let now = parse_time("2026-07-02T00:00:00Z").unwrap();
        let key = |revoked_at, expires_at| ApiKey {
            id: Uuid::nil(),
            tenant: "default".to_owned(),
            name: "laptop".to_owned(),
            scopes: vec!["delegate".to_owned(), "read".to_owned()],
            grants: Some(
                Grants { models: Some(vec!["cheap".to_owned()]), ..Grants::default() }.into(),
            ),
            created_at: now - TimeDelta::days(2),
            expires_at,
            last_used_at: Some(now - TimeDelta::minutes(3)),
            revoked_at,
        };
        let keys = [key(None, Some(now + TimeDelta::days(1))), key(Some(now), None)];
        let shown = as_table(&keys, now, OutputStyle { width: 120, colors: Colors::Off });
        assert_eq!(
            shown.lines().collect::<Vec<_>>(),
            [
                "ID                                    TENANT   NAME    SCOPES         GRANTS        STATE                AGE  USED",
                "00000000-0000-0000-0000-000000000000  default  laptop  delegate,read  models=cheap  ok until 2026-07-03   2d    3m",
                "00000000-0000-0000-0000-000000000000  default  laptop  delegate,read  models=cheap  revoked               2d    3m",
            ]
        );
    }
}
