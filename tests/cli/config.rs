//! `adjutant config`, and how commands report errors in the config.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::support::process::{assert_says, refused, succeed};

/// A command in this folder, without settings from the environment.
fn adjutant(dir: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_adjutant"));
    command.args(arguments).current_dir(dir.path());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("ADJUTANT_") {
            command.env_remove(name);
        }
    }
    command
}

fn json(output: &[u8]) -> Result<serde_json::Value> {
    serde_json::from_slice(output).context("not JSON")
}

#[test]
fn the_printed_example_passes_the_check_in_the_current_directory() -> Result<()> {
    let dir = TempDir::new()?;
    let example = succeed(&mut adjutant(&dir, &["config", "example"]))?.stdout;
    fs::write(dir.path().join("adjutant.toml"), &example)?;
    let about = json(&succeed(&mut adjutant(&dir, &["config", "check", "--json"]))?.stdout)?;
    assert_eq!(about["ok"], true);
    assert_eq!(about["file"], "adjutant.toml");
    assert_eq!(about["models"][0]["name"], "main");
    assert_eq!(about["agents"][0]["name"], "researcher");
    assert_eq!(about["limits"]["cap"], 5);
    let said = String::from_utf8(succeed(&mut adjutant(&dir, &["config", "check"]))?.stdout)?;
    assert_says(
        &said,
        &["model   main: ", "anthropic", "agent   researcher: ", "adjutant.toml:", "cap 5"],
    );
    Ok(())
}

#[test]
fn a_missing_model_key_is_reported_by_the_check_and_stops_a_worker() -> Result<()> {
    let dir = TempDir::new()?;
    fs::write(
        dir.path().join("adjutant.toml"),
        "[models.main]\nwire = 'openai'\napi_key_env = 'KEY_OF_NOBODY'\n",
    )?;
    let said = String::from_utf8(succeed(&mut adjutant(&dir, &["config", "check"]))?.stdout)?;
    assert_says(&said, &["model   main", "workers need KEY_OF_NOBODY"]);
    let about = json(&succeed(&mut adjutant(&dir, &["config", "check", "--json"]))?.stdout)?;
    assert_eq!(about["models"][0]["missing_key"], "KEY_OF_NOBODY");
    let said =
        refused(&mut adjutant(&dir, &["work", "--database-url", "postgres://127.0.0.1:1/x"]))?;
    assert_says(
        &said,
        &["models.main.api_key_env", "KEY_OF_NOBODY is not set", "export it", "api_key_file"],
    );
    Ok(())
}

#[test]
fn an_invalid_config_is_refused_with_all_of_its_errors() -> Result<()> {
    let dir = TempDir::new()?;
    fs::write(dir.path().join("c.toml"), "[limits]\ncapp = 1\nmax_turns_ceiling = 5000\n")?;
    let said = refused(
        adjutant(&dir, &["config", "check", "--config", "c.toml"]).env("ADJUTANT_POOOL", "x"),
    )?;
    let expected = "warning: ADJUTANT_POOOL: unknown variable; did you mean ADJUTANT_POOL?\n\
        error: c.toml:2:1: limits.capp: unknown setting; did you mean limits.cap?\n\
        error: c.toml:3:21: limits.max_turns_ceiling: must be at most 1000, not 5000\n";
    assert_eq!(said, expected);

    let output =
        adjutant(&dir, &["config", "check", "--json"]).env("ADJUTANT_CONFIG", "c.toml").output()?;
    assert_eq!(output.status.code(), Some(1));
    let about = json(&output.stdout)?;
    assert_eq!(about["ok"], false);
    assert_eq!(
        about["errors"][0],
        serde_json::json!({
            "variable": null, "file": "c.toml", "line": 2, "column": 1, "name": "limits.capp",
            "message": "unknown setting; did you mean limits.cap?",
        })
    );
    assert_eq!(about["errors"].as_array().map(Vec::len), Some(2));
    Ok(())
}

#[test]
fn config_check_prints_the_listen_address_and_the_tenant_limits() -> Result<()> {
    let dir = TempDir::new()?;
    fs::write(
        dir.path().join("c.toml"),
        "[server]\nlisten = \"127.0.0.1:9\"\ntenant_max_sessions = 7\n",
    )?;
    let output = succeed(&mut adjutant(&dir, &["config", "check", "--config", "c.toml"]))?;
    let said = String::from_utf8(output.stdout)?;
    assert!(
        said.contains(
            "\nserver  listens on 127.0.0.1:9, request bodies of at most 1048576 bytes\n"
        ),
        "{said}"
    );
    assert!(said.contains("\ntenant  at most 7 sessions"), "{said}");
    Ok(())
}

#[test]
fn without_a_file_defaults_and_the_environment_apply() -> Result<()> {
    let dir = TempDir::new()?;
    let mut command = adjutant(&dir, &["config", "check", "--json"]);
    let about = json(&succeed(command.env("ADJUTANT_LIMITS_CAP", "3"))?.stdout)?;
    assert_eq!((&about["file"], &about["limits"]["cap"]), (&serde_json::Value::Null, &3.into()));
    assert_eq!(about["lease_seconds"], 30);
    Ok(())
}

#[test]
fn a_missing_config_file_is_reported_once() -> Result<()> {
    let dir = TempDir::new()?;
    for command in [
        &["up"][..],
        &["serve", "--database-url", "postgres://127.0.0.1:1/x"],
        &["work", "--database-url", "postgres://127.0.0.1:1/x"],
        &["mcp"],
        &["config", "check"],
        &["doctor"],
    ] {
        let output = adjutant(&dir, &[command, &["--config", "nope.toml"]].concat()).output()?;
        assert_eq!(output.status.code(), Some(1), "{command:?}: {output:?}");
        // `doctor` prints its findings on standard output.
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8(printed)?;
        let error = "nope.toml: cannot be read: no such file or directory\n";
        assert_eq!(printed.matches(error).count(), 1, "{command:?}: {printed}");
        assert_eq!(printed.matches("no such file").count(), 1, "{command:?}: {printed}");
    }
    Ok(())
}
