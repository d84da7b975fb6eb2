//! The dashboard's script, run by Node.js in place of a browser.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::test_server::TestServer;
use crate::support::world::World;

/// What the dashboard shows until it has completed a refresh; none where there is no Node.js.
fn shown(server: &TestServer, words: &str) -> Option<Value> {
    if Command::new("node").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("skipped: node is not here");
        return None;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/server/http/dashboard.js");
    let url = format!("http://{}", server.address);
    let output = Command::new("node").args([script, &url, words]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

fn texts(shown: &Value, what: &str) -> Vec<String> {
    shown[what].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dashboard_goes_on_searching_and_says_how_far_it_is() {
    let world = World::new().await;
    world.old_tasks("default", 45_000, "needle").await;
    let server = TestServer::with(&world, "[server]\nsearch_ms = 1\n");
    let Some(found) = shown(&server, "needle") else { return };
    let status = texts(&found, "status");
    let searching =
        status.iter().filter(|text| text.starts_with("searching: 0 found, searched back to"));
    assert_eq!(searching.count(), 2, "{status:?}");
    let tables = found["tables"].as_array().unwrap();
    let first = tables[0][0].as_str().unwrap();
    assert!(first.starts_with("None found so far, searched back to "), "{first}");
    let last = tables.last().unwrap();
    assert_eq!(last.as_array().unwrap().len(), 1);
    assert!(last[0].as_str().unwrap().contains("t_01 needle"), "{last}");

    let nothing = shown(&server, "no such label").unwrap();
    assert_eq!(nothing["tables"].as_array().unwrap().last().unwrap()[0], "No task matches.");
    let all = shown(&server, "").unwrap();
    let rows = all["tables"].as_array().unwrap().last().unwrap().as_array().unwrap();
    assert_eq!(rows.len(), 100, "one page is enough");
}
