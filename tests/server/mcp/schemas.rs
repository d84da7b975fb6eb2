//! The schemas of the tools.

use serde_json::{Value, json};

use crate::support::mcp_client::McpClient;
use crate::support::test_server::TestServer;
use crate::support::world::World;

/// Asserts the rules of strict clients: every schema has a type, arrays have items, and there are
/// no references and no combinators.
#[track_caller]
fn assert_strict(schema: &Value, path: &str) {
    assert!(
        schema["type"].is_string() || schema["type"].is_array(),
        "{path} has no type: {schema}"
    );
    assert!(
        schema["description"].is_string() || path.ends_with("Schema") || path.ends_with("[]"),
        "{path}"
    );
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        assert_strict(field, &format!("{path}.{name}"));
    }
    if schema["type"] == "array" {
        assert_strict(&schema["items"], &format!("{path}[]"));
    }
    for odd in ["$ref", "oneOf", "anyOf", "allOf", "not", "if"] {
        assert!(schema.get(odd).is_none(), "{path} has {odd}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tools_have_strict_schemas_and_useful_descriptions() {
    let world = World::new().await;
    let client = McpClient::without_key(TestServer::on(&world));
    let answer = client.request("tools/list", json!({})).await;
    let listed = answer["result"]["tools"].as_array().unwrap();
    assert_eq!(
        listed.iter().map(|tool| &tool["name"]).collect::<Vec<_>>(),
        ["subagent", "shared_context"]
    );
    for tool in listed {
        for schema in ["inputSchema", "outputSchema"] {
            assert_eq!(tool[schema]["type"], "object");
            assert_strict(&tool[schema], schema);
        }
        assert_eq!(tool["inputSchema"]["required"], json!(["action"]));
        assert_eq!(tool["annotations"]["readOnlyHint"], false);
    }
    let description = listed[0]["description"].as_str().unwrap();
    for word in
        ["When to delegate", "not", "list_agents", "spawn", "wait", "collect", "shared_context"]
    {
        assert!(description.contains(word), "{word} in {description}");
    }
}
