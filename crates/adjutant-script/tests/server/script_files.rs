//! Scripts as people write them.

use adjutant_script::{EXAMPLE, Fault, Script, ScriptError, Usage, When, status, text, tool_call};
use serde_json::json;

use crate::client::{WIRES, play, request, user};

#[test]
fn toml_json_and_rust_say_the_same() {
    let toml = r#"
        once = true
        default = "what?"

        [[rule]]
        when = { assignment = "x", system = "y" }
        times = 3
        turns = [
            { call = "f", arguments = { a = [1, "b"] } },
            [
                { status = 429, retry_after = 3 },
                { text = "done", usage = { input_tokens = 5, output_tokens = 6, cache_read_tokens = 2 } },
            ],
        ]

        [[rule]]
        name = "broken"
        when.turn = 2
        answer = { text = "x", fault = "half_json" }
    "#;
    let json = json!({"once": true, "default": "what?", "rules": [
        {"when": {"assignment": "x", "system": "y"}, "times": 3, "turns": [
            {"calls": [{"name": "f", "arguments": {"a": [1, "b"]}}]},
            [{"status": 429, "retry_after": 3},
             {"text": "done", "usage": {"input_tokens": 5, "output_tokens": 6, "cache_read_tokens": 2}}]]},
        {"name": "broken", "when": {"turn": 2}, "answer": {"text": "x", "fault": "half_json"}}]});
    let usage =
        Usage { input_tokens: 5, output_tokens: 6, cache_read_tokens: 2, cache_write_tokens: 0 };
    let rust = Script::new()
        .once()
        .otherwise(text("what?"))
        .on(When::assignment("x").and(When::system("y")))
        .times(3)
        .turn(1, tool_call("f", json!({"a": [1, "b"]})))
        .turn(2, [status(429).retry_after(3.0), text("done").with_usage(usage)])
        .on(When { turn: Some(2), ..When::any() })
        .named("broken")
        .answer(text("x").with_fault(Fault::HalfJson));
    assert_eq!(Script::from_toml(toml).unwrap(), rust);
    assert_eq!(Script::from_json(&json.to_string()).unwrap(), rust);
}

#[test]
fn a_wrong_script_says_where_and_what() {
    for (toml, line, words) in [
        ("\n[[rule]]\nanswr = 'x'", 3, "answr"),
        ("[[rule]]\nwhen = { assignmnt = 'x' }\nanswer = 'x'", 2, "assignmnt"),
        ("[[rule]]\nanswer = 'x'\n\n[[rule]]\nname = 'empty'", 4, "no `turns` and no `answer`"),
        ("[[rule]]\nturns = [\n  'x',\n  { txt = 'y' },\n]", 4, "txt"),
        ("[[rule]]\nturns = [\n  'x',\n  [{ text = 'y' }, { status = 200 }],\n]", 4, "400 to 599"),
        ("[[rule]]\nturns = [\n  'x',\n  { fault = 'nonsense' },\n]", 4, "nonsense"),
        ("[[rule]]\nanswer = { arguments = {} }", 2, "belong to a `call`"),
        ("[[rule]]\nanswer = { delay_ms = 3 }", 2, "says nothing"),
        ("[[rule]]\nanswer = { text = 'x', status = 500 }", 2, "no text"),
        ("[[rule]]\nanswer = { status = 429, retry_after = -1 }", 2, "retry_after"),
        ("[[rule]]\nanswer = { text = 'x', headers = { 'a b' = 'c' } }", 2, "a b"),
        ("[[rule]]\nanswer = { call = 'f', raw_arguments = '{', arguments = {} }", 2, "not both"),
        ("[[rule]]\nwhen.turn = 0\nanswer = 'x'", 1, "from 1"),
        ("[[rule]]\n\n[[rule.turns]]\ntext = 'x'\n\n[[rule.turns]]\nstatus = 7", 6, "400 to 599"),
        ("[[rule]]\nanswer = []", 2, "empty list"),
        ("[[rule]]\nanswer = 3", 2, "a text, an answer, or a list"),
        ("", 1, "answer nothing"),
        ("[[rule]\n", 1, ""),
    ] {
        match Script::from_toml(toml).unwrap_err() {
            ScriptError::Invalid { line: said, message, .. } => {
                assert!(message.contains(words), "{toml}: {message}");
                assert_eq!(said, line, "{toml}: {message}");
            }
            other @ ScriptError::Unreadable { .. } => panic!("{other}"),
        }
    }
}

#[test]
fn a_file_is_named_in_its_errors() {
    let dir = tempfile::TempDir::new().unwrap();
    let path = dir.path().join("s.json");
    std::fs::write(&path, "{\"rules\": [\n{\"answer\": {\"txt\": 1}}]}").unwrap();
    let said = Script::read(&path).unwrap_err().to_string();
    assert!(said.starts_with(&format!("{}:2: ", path.display())) && said.contains("txt"), "{said}");
    let said = Script::read(&dir.path().join("none.toml")).unwrap_err().to_string();
    assert!(said.contains("none.toml"), "{said}");
}

#[tokio::test]
async fn the_example_plays() {
    let (server, client) = play(Script::from_toml(EXAMPLE).unwrap()).await;
    for wire in WIRES {
        assert_eq!(client.say(wire, json!([user("hello")])).await, "You said: hello");
    }
    let answer = client.send(WIRES[0], &request(json!([user("Why is the checkout slow?")]))).await;
    assert!(answer.text().await.unwrap().contains("shared_context"));
    server.finish();
}
