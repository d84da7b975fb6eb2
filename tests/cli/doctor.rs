//! `adjutant doctor`.

use std::process::Output;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::cli::client_commands::{adjutant, code, refuses, says, stdout};
use crate::support::canned_server::{CannedServer, Reply};
use crate::support::process::assert_says;
use crate::support::world::World;

/// The findings, by check.
fn verdicts(output: &Output) -> Result<Vec<(String, String)>> {
    let found: Value = serde_json::from_slice(&output.stdout)?;
    let checks = found["checks"].as_array().context("no checks")?.iter();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(checks.map(|check| (text(&check["check"]), text(&check["verdict"]))).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_reports_each_problem_with_advice() -> Result<()> {
    let world = World::new().await;
    let folder = tempfile::tempdir()?;
    let doctor = |url: &str, line: &[&str]| {
        let mut command = adjutant(url, &["doctor", "--database-url", world.url()]);
        command.args(line).current_dir(folder.path()).output()
    };
    let output = doctor("http://127.0.0.1:1", &["--json"])?;
    assert_eq!(code(&output), Some(1), "{output:?}");
    let wrong: Vec<String> = verdicts(&output)?
        .into_iter()
        .filter(|(_, verdict)| verdict == "wrong")
        .map(|(check, _)| check)
        .collect();
    assert_eq!(wrong, ["workers", "server"]);
    let output = doctor("http://127.0.0.1:1", &[])?;
    assert_says(&stdout(&output), &["adjutant work", "adjutant up", "2 checks failed"]);

    world.worker().await;
    let ready = || Reply::Json(200, "ready".to_owned());
    let server = CannedServer::new([
        ready(),
        says(200, json!({"sessions": []})),
        ready(),
        refuses(401, "UNAUTHENTICATED"),
    ]);
    let output = tokio::task::block_in_place(|| doctor(&server.url(), &["--json"]))?;
    assert_eq!(code(&output), Some(0), "{output:?}");
    let checks: Vec<String> = verdicts(&output)?
        .into_iter()
        .map(|(check, verdict)| format!("{check} {verdict}"))
        .collect();
    let expected = [
        "database ok",
        "schema ok",
        "isolation ok",
        "notices ok",
        "workers ok",
        "places ok",
        "leases ok",
        "cap ok",
        "pools ok",
        "abilities ok",
        "servers ok",
        "gates ok",
        "calls ok",
        "tools ok",
        "failures ok",
        "tenants ok",
        "transactions ok",
        "disk ok",
        "clock ok",
        "deletions ok",
        "agents ok",
        "server ok",
        "key ok",
    ];
    assert_eq!(checks[checks.len() - expected.len()..], expected);
    let output = tokio::task::block_in_place(|| doctor(&server.url(), &["--json"]))?;
    assert_eq!(
        (code(&output), verdicts(&output)?.pop()),
        (Some(1), Some(("key".to_owned(), "wrong".to_owned())))
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_recognises_an_empty_database() -> Result<()> {
    let url = World::empty_database().await;
    let output = adjutant("http://127.0.0.1:1", &["doctor", "--database-url", &url]).output()?;
    assert_eq!(code(&output), Some(1), "{output:?}");
    assert_says(&stdout(&output), &["run `adjutant migrate`"]);
    Ok(())
}
