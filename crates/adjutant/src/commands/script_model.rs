//! `adjutant script-model`: a scripted model server, to try Adjutant without an API key.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use adjutant_script::{EXAMPLE, End, Keep, Options, RecordedRequest, Script, ScriptServer};
use anyhow::Context;
use clap::Args;

use crate::logs;
use crate::output::{print_json, print_line};
use crate::signals::Signals;
use crate::telemetry::{self, Payloads};

/// Run a model server that answers from a script
///
/// It speaks the OpenAI Chat Completions and the Anthropic Messages format, streaming or not, and
/// needs no key. The rules of a script decide the answer to each request: text, tool calls, delays,
/// errors, broken connections. A request that matches no rule gets a 400 with an explanation.
#[derive(Debug, Args)]
#[command(after_long_help = r#"
A script, hello.toml:
  [[rule]]                                # the first rule that matches the request answers it
  when = { assignment = "weather" }       # text in the first user message; also: system, last, model, turn
  turns = [
    { call = "fetch", arguments = { url = "https://example.com/weather" } },
    [ { status = 429, retry_after = 2 },  # a list: the first request for this turn ...
      { text = "It says: {last_tool_result}", delay_ms = 500 } ],   # ... and every later one
  ]

  [[rule]]                                # every other request
  answer = "You said: {last}"

Examples:
  adjutant script-model --example > hello.toml        a commented script to start from
  adjutant script-model --script hello.toml           prints the base URLs and a config
  adjutant script-model --script hello.toml --listen 127.0.0.1:0 --json
  curl localhost:9000/v1/chat/completions -d '{"model": "m", "messages": [{"role": "user", "content": "hello"}]}'
  curl localhost:9000/script/requests                 all requests; also /script/unexpected, /script/counts
"#)]
pub struct Arguments {
    /// The script: TOML, or JSON if its name ends in .json
    #[arg(long, value_name = "FILE", required_unless_present = "example")]
    script: Option<PathBuf>,

    /// Print a commented script to start from
    #[arg(long, conflicts_with_all = ["script", "json"])]
    example: bool,

    /// The address to listen on; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9000")]
    listen: SocketAddr,

    /// Log the bodies of requests too
    #[arg(long, conflicts_with = "outlines")]
    payloads: bool,

    /// Do not keep headers and bodies in memory: for many requests
    #[arg(long)]
    outlines: bool,

    #[command(flatten)]
    logs: logs::Logs,

    /// Print one JSON object when ready: openai_base_url, anthropic_base_url, rules
    #[arg(long)]
    json: bool,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match &arguments.script {
        Some(path) => serve(path, &arguments).await,
        None => {
            print_line(EXAMPLE.trim_end())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn serve(path: &Path, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let _telemetry = telemetry::init(&arguments.logs, Payloads::Omitted)?;
    let script = Script::read(path)?;
    let rules = script.rule_count();
    // Before the line is printed: a script that reads it may send a signal at once.
    let mut signals = Signals::listen()?;
    let options = Options {
        listen: arguments.listen,
        keep: if arguments.outlines { Keep::Outlines } else { Keep::Everything },
        on_end: Some(if arguments.payloads { Box::new(log_with_payload) } else { Box::new(log) }),
    };
    let server = ScriptServer::start_with(script, options)
        .await
        .with_context(|| format!("--listen: cannot listen on {}", arguments.listen))?;
    let (openai, anthropic) = (server.openai_base_url(), server.anthropic_base_url());
    if arguments.json {
        print_json(&serde_json::json!({"openai_base_url": openai, "anthropic_base_url": anthropic, "rules": rules})
            .to_string())?;
    } else {
        print_line(format!(
            "Ready with {rules} {}: OpenAI API at {openai}, Anthropic API at {anthropic}. Ctrl-C stops it.\n\n{}",
            if rules == 1 { "rule" } else { "rules" },
            config(&openai, &anthropic)
        ))?;
    }
    signals.next().await;
    Ok(ExitCode::SUCCESS)
}

fn config(openai: &str, anthropic: &str) -> String {
    format!(
        "\
# For adjutant.toml:
default_model = \"script\"

[models.script]
wire = \"openai\"
base_url = \"{openai}\"

[models.script-anthropic]
wire = \"anthropic\"
base_url = \"{anthropic}\""
    )
}

fn log(request: &RecordedRequest) {
    let duration_ms = u64::try_from(request.arrived.elapsed().as_millis()).unwrap_or(u64::MAX);
    let parsed = request.parsed.as_ref();
    let (model, turn) = parsed.map_or(("-", 0), |parsed| (parsed.model.as_str(), parsed.turn));
    let rule = request.rule.as_deref().unwrap_or("-");
    let line = format!("{} {} turn {turn} of model {model}, {rule}", request.method, request.path);
    match &request.end {
        Some(End::Unexpected(why)) => tracing::warn!(duration_ms, "{line}: unexpected, {why}"),
        Some(End::Answered) => tracing::info!(duration_ms, "{line}: answered"),
        Some(End::Failed) => tracing::info!(duration_ms, "{line}: failed as scripted"),
        Some(End::HungUp) => tracing::info!(duration_ms, "{line}: the client disconnected"),
        None => {}
    }
}

fn log_with_payload(request: &RecordedRequest) {
    log(request);
    if let Some(body) = &request.body {
        tracing::info!("body: {body}");
    }
}
