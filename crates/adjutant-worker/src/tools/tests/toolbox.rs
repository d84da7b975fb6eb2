use std::sync::Arc;
use std::time::Duration;

use adjutant_agent::{Replay, ToolDefinition};
use futures::future::BoxFuture;
use serde_json::json;

use super::call;
use crate::tools::{Limits, Tool, ToolCall, Toolbox, ToolsConfig};

/// A faulty tool of an embedding program.
struct Own {
    definition: ToolDefinition,
    run: fn(ToolCall<'_>) -> BoxFuture<'static, Result<String, String>>,
}

impl Tool for Own {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn limits(&self) -> Limits {
        Limits { time: Duration::from_millis(50), bytes: 100 }
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<String, String>> {
        (self.run)(call)
    }
}

fn toolbox_of(
    name: &str,
    replay: Replay,
    run: fn(ToolCall<'_>) -> BoxFuture<'static, Result<String, String>>,
) -> Toolbox {
    let definition = ToolDefinition {
        name: name.to_owned(),
        description: String::new(),
        input_schema: json!({ "type": "object" }),
        replay,
    };
    Toolbox::start(&ToolsConfig::default(), vec![Arc::new(Own { definition, run })]).unwrap()
}

#[tokio::test]
async fn an_embedded_tool_is_called_with_the_arguments_and_the_key() {
    let toolbox = toolbox_of("own", Replay::Unsafe, |call| {
        let text = format!("{} {}", call.arguments["a"], &call.key[..4]);
        Box::pin(async move { Ok(text) })
    });
    assert_eq!(toolbox.call("own", call(&json!({ "a": 1 }))).await.unwrap(), "1 0198");
    let names: Vec<_> = toolbox.all_definitions().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["fetch", "own"]);
    assert_eq!(toolbox.definitions(["own", "none", "subagent"], None).len(), 1);
}

#[tokio::test]
async fn an_error_of_a_tool_becomes_a_text_for_the_child() {
    let panics = toolbox_of("t", Replay::Unsafe, |_| panic!("at once"));
    let error = panics.call("t", call(&json!({}))).await.unwrap_err();
    assert_eq!(error, "The tool panicked. Whether it had an effect is not known.");
    let panics_later = toolbox_of("t", Replay::Safe, |_| Box::pin(async { panic!("later") }));
    assert_eq!(
        panics_later.call("t", call(&json!({}))).await,
        Err("The tool panicked.".to_owned())
    );
    let hangs = toolbox_of("t", Replay::Safe, |_| Box::pin(std::future::pending()));
    let error = hangs.call("t", call(&json!({}))).await.unwrap_err();
    assert_eq!(error, "The tool did not answer within 0.05 s.");
    let fails = toolbox_of("t", Replay::Safe, |_| Box::pin(async { Err("no".to_owned()) }));
    assert_eq!(fails.call("t", call(&json!({}))).await, Err("no".to_owned()));
    assert_eq!(
        fails.call("x", call(&json!({}))).await,
        Err("There is no tool of this name.".to_owned())
    );
    for not_an_object in [json!(null), json!([]), json!("{}"), json!(1)] {
        assert!(fails.call("t", call(&not_an_object)).await.unwrap_err().contains("JSON object"));
    }
}

#[tokio::test]
async fn a_long_text_is_truncated_between_characters_with_its_full_length() {
    let toolbox = toolbox_of("t", Replay::Safe, |_| Box::pin(async { Ok("ä".repeat(60)) }));
    let text = toolbox.call("t", call(&json!({}))).await.unwrap();
    assert_eq!(text, "ä".repeat(50) + "\n[cut: these are the first 100 of 120 bytes]");
    let toolbox = toolbox_of("t", Replay::Safe, |_| {
        Box::pin(async { Err("a".to_owned() + &"ä".repeat(60)) })
    });
    let text = toolbox.call("t", call(&json!({}))).await.unwrap_err();
    assert_eq!(
        text,
        "a".to_owned() + &"ä".repeat(49) + "\n[cut: these are the first 99 of 121 bytes]"
    );
}
