//! `adjutant script-model`.

use std::process::{Command, Stdio};

use anyhow::Result;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::process::{Process, assert_says, refused, succeed, wait_until};

fn script_model(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_adjutant"));
    command.arg("script-model").args(arguments).stdin(Stdio::null());
    command
}

/// The status line and the body.
async fn request(base_url: &str, content: &str) -> Result<String> {
    let host = base_url.trim_start_matches("http://").trim_end_matches("/v1");
    let body =
        serde_json::json!({"model": "m", "messages": [{"role": "user", "content": content}]})
            .to_string();
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(host).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_script_answers_and_payloads_are_not_logged() -> Result<()> {
    let dir = TempDir::new()?;
    let path = dir.path().join("script.toml");
    std::fs::write(&path, succeed(&mut script_model(&["--example"]))?.stdout)?;
    let running =
        Process::start(script_model(&["--listen", "127.0.0.1:0", "--script"]).arg(&path))?;
    let url = running.about["openai_base_url"].as_str().unwrap();
    assert_eq!(running.about["anthropic_base_url"], url.trim_end_matches("/v1"));
    assert_says(&request(url, "a secret word").await?, &["200 OK", "You said: a secret word"]);
    wait_until("the request is logged", || running.stderr().contains("answered"))?;
    assert_says(&running.stderr(), &["turn 1", "echo"]);
    assert!(!running.stderr().contains("secret"));
    running.stop()
}

#[test]
fn an_invalid_script_is_refused_with_its_line() -> Result<()> {
    let dir = TempDir::new()?;
    let path = dir.path().join("script.toml");
    std::fs::write(&path, "[[rule]]\nanswer = { txt = 'x' }\n")?;
    let said = refused(script_model(&["--script"]).arg(&path))?;
    assert_says(&said, &["script.toml:2: ", "txt"]);
    let said = refused(&mut script_model(&[]))?;
    assert_says(&said, &["--script"]);
    Ok(())
}

#[test]
fn a_missing_script_is_reported_once() -> Result<()> {
    let dir = TempDir::new()?;
    let error = refused(script_model(&["--script", "nope.toml"]).current_dir(dir.path()))?;
    assert_eq!(error, "adjutant: cannot read nope.toml: No such file or directory (os error 2)\n");
    Ok(())
}
