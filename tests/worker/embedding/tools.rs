use std::sync::Arc;
use std::time::Duration;

use adjutant_agent::{Replay, SessionId, TaskId, ToolDefinition};
use adjutant_worker::tools::{
    FailureKindCell, Limits, RustCall, RustTool, Tool, ToolCall, Toolbox, ToolsConfig,
};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Order {
    number: u32,
}

fn definition(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        description: "Says how an order stands.".to_owned(),
        input_schema: json!({"type": "object", "properties": {"number": {"type": "integer"}}}),
        replay: Replay::Unsafe,
    }
}

/// Repeats its arguments, and hangs for order 0.
fn order_status(name: &str) -> Arc<dyn Tool> {
    let tool = RustTool::new(definition(name), |call: RustCall| async move {
        let order: Order = call.arguments()?;
        match order.number {
            0 => std::future::pending().await,
            1 => panic!("order 1"),
            number => Ok(format!("{number} {} {}", call.key, call.session.0)),
        }
    });
    Arc::new(tool.within(Limits { time: Duration::from_millis(50), bytes: 1000 }))
}

async fn call(toolbox: &Toolbox, arguments: Value) -> Result<String, String> {
    let (task, session) = (TaskId::new(), SessionId(7));
    let kind = &FailureKindCell::default();
    let call =
        ToolCall { arguments: &arguments, key: "the key", task, session, tenant: None, kind };
    toolbox.call("order_status", call).await
}

#[tokio::test]
async fn a_rust_function_is_a_tool_with_a_time_limit_and_a_form_for_its_arguments() {
    let toolbox =
        Toolbox::start(&ToolsConfig::default(), vec![order_status("order_status")]).unwrap();
    assert_eq!(toolbox.replay("order_status"), Some(Replay::Unsafe));
    assert_eq!(toolbox.definitions(["order_status"], None), [definition("order_status")]);
    assert_eq!(call(&toolbox, json!({"number": 7})).await, Ok("7 the key 7".to_owned()));
    for wrong in [json!({}), json!({"number": "7"}), json!({"number": -1})] {
        let error = call(&toolbox, wrong).await.unwrap_err();
        assert!(error.starts_with("The arguments are invalid: "), "{error}");
    }
    let unknown = "Whether it had an effect is not known.";
    let late = call(&toolbox, json!({"number": 0})).await.unwrap_err();
    assert_eq!(late, format!("The tool did not answer within 0.05 s. {unknown}"));
    let broken = call(&toolbox, json!({"number": 1})).await.unwrap_err();
    assert_eq!(broken, format!("The tool panicked. {unknown}"));
}

#[tokio::test]
async fn a_tool_of_a_program_has_a_name_of_its_own() {
    for names in
        [&["shared_context"][..], &["dispatch_subagent"], &["has blanks"], &["twice", "twice"]]
    {
        let tools = names.iter().map(|name| order_status(name)).collect();
        assert!(Toolbox::start(&ToolsConfig::default(), tools).is_err(), "{names:?}");
    }
}
