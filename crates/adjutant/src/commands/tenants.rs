//! `adjutant tenants`: how tenants share the fleet.

use std::process::ExitCode;

use adjutant_store::{Store, Tenant, TenantChange};
use clap::{Args, Subcommand};
use serde_json::json;

use crate::commands::database_args::DatabaseArgs;
use crate::exit::Exit;
use crate::output::{Shown, note, print_json, print_line};
use crate::table::{Column, OutputStyle, table};

/// Tenants are read in pages of so many.
const PAGE: i64 = 500;

/// List tenants, set their shares of the fleet, archive them
///
/// Tenants that have work share the cap of the fleet by their weights. A tenant exists by being
/// named in a key or a session; its settings are the defaults until they are set here.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant tenants list
  adjutant tenants set team-a --weight 2
  adjutant tenants set team-b --cap 10
  adjutant tenants show team-b --json
")]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(List),
    /// Show a tenant
    #[command(after_long_help = "\
Examples:
  adjutant tenants show team-a
")]
    Show(OneTenant),
    Set(Set),
    /// Refuse the keys of a tenant
    ///
    /// What is open with them ends within 5 seconds. The tasks of the tenant run to their ends.
    #[command(after_long_help = "\
Examples:
  adjutant tenants archive team-c
")]
    Archive(OneTenant),
    /// Accept the keys of an archived tenant again
    #[command(after_long_help = "\
Examples:
  adjutant tenants unarchive team-c
")]
    Unarchive(OneTenant),
}

/// List the tenants that have settings, keys, sessions or tasks
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant tenants list
  adjutant tenants list --json | jq -r '.tenants[] | select(.running > 0) | .name'
")]
struct List {
    #[command(flatten)]
    database: DatabaseArgs,

    /// Print one JSON object: tenants
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct OneTenant {
    /// The name of the tenant
    #[arg(value_name = "TENANT")]
    tenant: String,

    #[command(flatten)]
    database: DatabaseArgs,

    /// Print one JSON object: the tenant's entry of `list`
    #[arg(long)]
    json: bool,
}

/// Change the share or the cap of a tenant, for all workers at once
///
/// A lower cap stops no running task: new tasks start when enough have ended.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  adjutant tenants set team-a --weight 2      twice the share of a tenant of weight 1
  adjutant tenants set team-b --cap 10        at most 10 tasks at a time
  adjutant tenants set team-b --no-cap
")]
struct Set {
    /// The name of the tenant
    #[arg(value_name = "TENANT")]
    tenant: String,

    /// Its share of the fleet's cap, relative to the other tenants that have work [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true, required_unless_present_any = ["cap", "no_cap"])]
    weight: Option<i32>,

    /// The most tasks that it runs at a time [default: only the fleet's cap]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    cap: Option<i32>,

    /// Remove its cap
    #[arg(long, conflicts_with = "cap")]
    no_cap: bool,

    #[command(flatten)]
    database: DatabaseArgs,

    /// Print one JSON object: the tenant's entry of `list`
    #[arg(long)]
    json: bool,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.action {
        Action::List(arguments) => list(arguments).await?,
        Action::Show(arguments) => show(arguments).await?,
        Action::Set(arguments) => set(arguments).await?,
        Action::Archive(arguments) => archive(arguments, true).await?,
        Action::Unarchive(arguments) => archive(arguments, false).await?,
    }
    Ok(Exit::Done.into())
}

async fn list(arguments: List) -> anyhow::Result<()> {
    let store = Store::open(&arguments.database.url()?, 2).await?;
    let mut tenants: Vec<Tenant> = Vec::new();
    loop {
        let after = tenants.last().map(|last| last.name.clone()).unwrap_or_default();
        let page = store.tenants(&after, PAGE).await?;
        if page.is_empty() {
            break;
        }
        tenants.extend(page);
    }
    store.close().await;
    if arguments.json {
        return print_json(&json!({ "tenants": tenants }).to_string());
    }
    if tenants.is_empty() {
        note!("adjutant: no tenants yet");
        return Ok(());
    }
    print_line(as_table(&tenants, OutputStyle::for_stdout()))
}

async fn show(arguments: OneTenant) -> anyhow::Result<()> {
    let store = Store::open(&arguments.database.url()?, 2).await?;
    let tenant = store.tenant(&arguments.tenant).await?;
    store.close().await;
    print(&tenant, arguments.json)
}

async fn set(arguments: Set) -> anyhow::Result<()> {
    let store = arguments.database.open_as_user().await?;
    let cap = arguments.cap.map(Some).or(arguments.no_cap.then_some(None));
    store.set_tenant(&arguments.tenant, TenantChange { weight: arguments.weight, cap }).await?;
    let tenant = store.tenant(&arguments.tenant).await?;
    store.close().await;
    print(&tenant, arguments.json)
}

async fn archive(arguments: OneTenant, archived: bool) -> anyhow::Result<()> {
    let store = arguments.database.open_as_user().await?;
    if archived {
        store.archive_tenant(&arguments.tenant).await?;
    } else {
        store.unarchive_tenant(&arguments.tenant).await?;
    }
    let tenant = store.tenant(&arguments.tenant).await?;
    store.close().await;
    print(&tenant, arguments.json)
}

fn print(tenant: &Tenant, as_json: bool) -> anyhow::Result<()> {
    if as_json { print_json(&serde_json::to_string(tenant)?) } else { print_line(line(tenant)) }
}

fn line(tenant: &Tenant) -> String {
    let cap = tenant.cap.map_or("no cap".to_owned(), |cap| format!("cap {cap}"));
    let Tenant { name, weight, cap: _, archived_at, unfinished, running } = tenant;
    let archived = archived_at.map_or("", |_| ", archived");
    format!("{name}: weight {weight}, {cap}, {running} running, {unfinished} unfinished{archived}")
}

fn as_table(tenants: &[Tenant], style: OutputStyle) -> Shown {
    let columns = [
        Column::Text("TENANT"),
        Column::Number("WEIGHT"),
        Column::Number("CAP"),
        Column::Number("RUNNING"),
        Column::Number("UNFINISHED"),
        Column::Text("ARCHIVED"),
    ];
    let row = |tenant: &Tenant| {
        vec![
            tenant.name.clone(),
            tenant.weight.to_string(),
            tenant.cap.map(|cap| cap.to_string()).unwrap_or_default(),
            tenant.running.to_string(),
            tenant.unfinished.to_string(),
            tenant.archived_at.map(|at| at.format("%Y-%m-%d").to_string()).unwrap_or_default(),
        ]
    };
    table(&columns, &tenants.iter().map(row).collect::<Vec<_>>(), style)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Colors;

    #[test]
    fn tenants_are_a_table() {
        let tenant = Tenant {
            name: "a".to_owned(),
            weight: 2,
            cap: Some(10),
            archived_at: None,
            unfinished: 5,
            running: 1,
        };
        assert_eq!(line(&tenant), "a: weight 2, cap 10, 1 running, 5 unfinished");
        let free = Tenant { name: "team-b".to_owned(), weight: 1, cap: None, ..tenant.clone() };
        let shown = as_table(&[tenant, free], OutputStyle { width: 120, colors: Colors::Off });
        assert_eq!(
            shown.lines().collect::<Vec<_>>(),
            [
                "TENANT  WEIGHT  CAP  RUNNING  UNFINISHED  ARCHIVED",
                "a            2   10        1           5",
                "team-b       1             1           5",
            ]
        );
    }
}
