use std::sync::LazyLock;

use adjutant_agent::{Answer, Arguments, Block, Message, Replay, Request, ToolDefinition, ToolUse};
use serde_json::{Value, json};

use super::reading::Reading;
use super::*;

mod anthropic;
mod config;
mod http;
mod openai;
mod requests;
mod server;

/// A key that would be noticed anywhere.
const KEY: &str = "sk-most-secret-0123456789";

fn config(value: Value) -> ModelConfig {
    serde_json::from_value(value).unwrap()
}

fn client() -> reqwest::Client {
    static CLIENT: LazyLock<reqwest::Client> = LazyLock::new(|| http_client().unwrap());
    CLIENT.clone()
}

fn model(config_of: Value) -> Model {
    Model::new("main", &config(config_of), client()).unwrap()
}

/// What a model makes of an answer's bytes, and the text that it handed out meanwhile.
fn read<'a>(wire: Wire, pieces: impl IntoIterator<Item = &'a [u8]>) -> (Result<Reply, CallError>, String) {
    let base = match wire {
        Wire::Anthropic => "http://127.0.0.1",
        Wire::OpenAi => "http://127.0.0.1/v1",
    };
    let rates = json!({"input": 1.0, "output": 2.0, "cache_read": 0.1, "cache_write": 1.25});
    let model = model(json!({"wire": wire.as_str(), "base_url": base, "prices": rates}));
    let mut text = String::new();
    let mut deltas = |piece: &str| text.push_str(piece);
    let mut reading = Reading::new(wire);
    let fed = pieces.into_iter().try_for_each(|piece| reading.feed(piece, &mut deltas));
    let draft = fed.and_then(|()| reading.end(&mut deltas));
    (draft.map(|draft| model.reply(draft, 0)), text)
}

/// Reads a stream cut in two at every place, and cut off at every place: the same answer, or a failure that may pass.
#[track_caller]
fn read_cut_everywhere(wire: Wire, stream: &str, needed: &str) -> Reply {
    let (whole, text) = read(wire, [stream.as_bytes()]);
    let whole = whole.unwrap();
    assert_eq!(text, whole.answer.text().unwrap_or_default());
    let complete = stream.find(needed).unwrap() + needed.len();
    let bytes = stream.as_bytes();
    for cut in 0..=bytes.len() {
        let (reply, handed_out) = read(wire, [&bytes[..cut], &bytes[cut..]]);
        assert_eq!(reply.as_ref(), Ok(&whole), "cut at {cut}");
        assert_eq!(handed_out, text);
        if cut < complete {
            let (reply, _) = read(wire, [&bytes[..cut]]);
            assert!(matches!(reply, Err(CallError::Passing { .. })), "cut off at {cut}: {reply:?}");
        }
    }
    whole
}

fn text(text: &str) -> Block {
    Block::Text { text: text.to_owned() }
}

fn call(id: &str, name: &str, input: Value) -> Block {
    Block::ToolUse(ToolUse { id: id.to_owned(), name: name.to_owned(), arguments: Arguments::Json(input) })
}

fn malformed(id: &str, name: &str, arguments: &str) -> Block {
    let arguments = Arguments::Malformed(arguments.to_owned());
    Block::ToolUse(ToolUse { id: id.to_owned(), name: name.to_owned(), arguments })
}

fn tool(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        description: format!("Does {name}"),
        input_schema: json!({"type": "object", "properties": {"q": {"type": "string"}}}),
        replay: Replay::Safe,
    }
}

fn asking(text: &str) -> Request<'_> {
    Request {
        system: "You are terse.".to_owned(),
        messages: vec![Message::User(text.into())],
        with_tools: true,
    }
}

fn answer(content: Vec<Block>) -> Answer {
    Answer { content, stop: Default::default() }
}
