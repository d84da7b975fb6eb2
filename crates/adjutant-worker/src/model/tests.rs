use std::sync::LazyLock;

use adjutant_agent::{Answer, Arguments, Block, Message, Replay, Request, ToolDefinition, ToolUse};
use serde_json::{Value, json};

use super::response::ResponseParser;
use super::*;

mod anthropic;
mod config;
mod http;
mod openai;
mod requests;
mod script;
mod server;

/// A key that no text contains by chance.
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

/// The parsed response, and the text that was streamed meanwhile.
fn read<'a>(
    wire: Wire,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Result<Reply, CallError>, String) {
    let rates = json!({"input": 1.0, "output": 2.0, "cache_read": 0.1, "cache_write": 1.25});
    let model =
        model(json!({"wire": wire.as_str(), "base_url": "http://127.0.0.1", "prices": rates}));
    let mut text = String::new();
    let mut on_text = |piece: &str| text.push_str(piece);
    let mut parser = ResponseParser::new(wire);
    let fed = pieces.into_iter().try_for_each(|piece| parser.feed(piece, &mut on_text));
    let parsed = fed.and_then(|()| parser.end(&mut on_text));
    (parsed.map(|answer| model.reply(answer, 0, 0)), text)
}

/// Parses a stream split in two at every byte and cut off at every byte: the same answer, or a
/// transient error.
#[track_caller]
fn read_cut_everywhere(wire: Wire, stream: &str, needed: &str) -> Reply {
    let (whole, text) = read(wire, [stream.as_bytes()]);
    let whole = whole.unwrap();
    assert_eq!(text, whole.answer.text().unwrap_or_default());
    let complete = stream.find(needed).unwrap() + needed.len();
    let bytes = stream.as_bytes();
    for cut in 0..=bytes.len() {
        let (reply, streamed) = read(wire, [&bytes[..cut], &bytes[cut..]]);
        assert_eq!(reply.as_ref(), Ok(&whole), "cut at {cut}");
        assert_eq!(streamed, text);
        if cut < complete {
            let (reply, _) = read(wire, [&bytes[..cut]]);
            assert!(
                matches!(reply, Err(CallError::Transient { .. })),
                "cut off at {cut}: {reply:?}"
            );
        }
    }
    whole
}

fn text(text: &str) -> Block {
    Block::Text { text: text.to_owned() }
}

fn call(id: &str, name: &str, input: Value) -> Block {
    Block::ToolUse(ToolUse {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: Arguments::Json(input),
        extra: None,
    })
}

fn malformed(id: &str, name: &str, arguments: &str) -> Block {
    let arguments = Arguments::Malformed(arguments.to_owned());
    Block::ToolUse(ToolUse { id: id.to_owned(), name: name.to_owned(), arguments, extra: None })
}

fn cut_off(id: &str, name: &str, arguments: &str) -> Block {
    let arguments = Arguments::CutOff(arguments.to_owned());
    Block::ToolUse(ToolUse { id: id.to_owned(), name: name.to_owned(), arguments, extra: None })
}

fn tool(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        description: format!("Does {name}"),
        input_schema: json!({"type": "object", "properties": {"q": {"type": "string"}}}),
        replay: Replay::Safe,
    }
}

fn request_with(text: &str) -> Request<'_> {
    Request {
        system: "You are terse.".to_owned(),
        messages: vec![Message::User(text.into())],
        with_tools: true,
        extra_body: None,
    }
}

fn answer(content: Vec<Block>) -> Answer {
    Answer { content, stop: Default::default() }
}
