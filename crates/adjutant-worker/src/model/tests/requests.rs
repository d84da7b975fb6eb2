use adjutant_agent::ToolOutput;

use super::*;

fn anthropic() -> Model {
    model(
        json!({"wire": "anthropic", "model": "claude-test", "max_tokens": 100, "temperature": 0.5}),
    )
}

fn openai() -> Model {
    let base = "http://127.0.0.1:9000/v1/";
    model(json!({"wire": "openai", "base_url": base, "model": "gpt-test", "max_tokens": 100}))
}

fn body(model: &Model, request: &Request<'_>, tools: &[ToolDefinition]) -> Value {
    model.wire.format().request_body(&model.parameters, request, tools)
}

fn output<'a>(call: &'a str, content: &'a str, is_error: bool) -> ToolOutput<'a> {
    ToolOutput { call, content: content.into(), is_error }
}

/// Two turns with tools, thinking, a malformed call and an error.
fn answers() -> [Answer; 2] {
    let thinking = json!({"type": "thinking", "thinking": "Hm", "signature": "c2ln"});
    let first = vec![
        Block::Opaque { wire: "anthropic".to_owned(), value: thinking },
        Block::Opaque { wire: "other".to_owned(), value: json!({"type": "reasoning"}) },
        text("I look."),
        text(" \n"),
        call("a", "fetch", json!({"q": "x"})),
        malformed("b", "fetch", "{\"q\":"),
    ];
    [answer(first), answer(vec![call("c", "now", json!({}))])]
}

fn conversation(answers: &[Answer; 2]) -> Request<'_> {
    let mut request = request_with("Look it up.");
    request.messages.extend([
        Message::Assistant(&answers[0]),
        Message::ToolResults(vec![output("a", "found", false), output("b", "not an object", true)]),
        Message::Assistant(&answers[1]),
        Message::ToolResults(vec![output("c", "", false)]),
    ]);
    request
}

const MARK: &str = "ephemeral";

#[test]
fn anthropic_gets_the_conversation_with_moving_cache_breakpoints() {
    let answers = answers();
    let sent = body(&anthropic(), &conversation(&answers), &[tool("fetch"), tool("now")]);
    let schema = json!({"type": "object", "properties": {"q": {"type": "string"}}});
    let mark = json!({"type": MARK});
    assert_eq!(
        sent,
        json!({
            "model": "claude-test", "max_tokens": 100, "temperature": 0.5, "stream": true,
            "system": [{"type": "text", "text": "You are terse.", "cache_control": mark}],
            "tools": [
                {"name": "fetch", "description": "Does fetch", "input_schema": schema},
                {"name": "now", "description": "Does now", "input_schema": schema, "cache_control": mark},
            ],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "Look it up."}]},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "Hm", "signature": "c2ln"},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "a", "name": "fetch", "input": {"q": "x"}},
                    {"type": "tool_use", "id": "b", "name": "fetch", "input": {"malformed": "{\"q\":"}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": "found"},
                    {"type": "tool_result", "tool_use_id": "b", "content": "not an object", "is_error": true,
                     "cache_control": mark},
                ]},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "now", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "cache_control": mark}]},
            ],
        })
    );
}

#[test]
fn openai_gets_the_conversation() {
    let answers = answers();
    let sent = body(&openai(), &conversation(&answers), &[tool("fetch")]);
    let schema = json!({"type": "object", "properties": {"q": {"type": "string"}}});
    let function = |name: &str, arguments: &str| json!({"name": name, "arguments": arguments});
    assert_eq!(
        sent,
        json!({
            "model": "gpt-test", "max_tokens": 100, "stream": true, "stream_options": {"include_usage": true},
            "tools": [{"type": "function", "function": {
                "name": "fetch", "description": "Does fetch", "parameters": schema,
            }}],
            "messages": [
                {"role": "system", "content": "You are terse."},
                {"role": "user", "content": "Look it up."},
                {"role": "assistant", "content": "I look. \n", "tool_calls": [
                    {"id": "a", "type": "function", "function": function("fetch", "{\"q\":\"x\"}")},
                    {"id": "b", "type": "function", "function": function("fetch", "{\"malformed\":\"{\\\"q\\\":\"}")},
                ]},
                {"role": "tool", "tool_call_id": "a", "content": "found"},
                {"role": "tool", "tool_call_id": "b", "content": "Error: not an object"},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "c", "type": "function", "function": function("now", "{}")},
                ]},
                {"role": "tool", "tool_call_id": "c", "content": ""},
            ],
        })
    );
}

#[test]
fn the_prefix_of_a_growing_conversation_does_not_change() {
    let answers = answers();
    let unmarked = |request: &Request<'_>| {
        let mut messages = body(&anthropic(), request, &[tool("fetch")])["messages"].take();
        for message in messages.as_array_mut().unwrap() {
            for block in message["content"].as_array_mut().unwrap() {
                block.as_object_mut().unwrap().remove("cache_control");
            }
        }
        messages
    };
    let whole = conversation(&answers);
    for length in 1..whole.messages.len() {
        let mut shorter = whole.clone();
        shorter.messages.truncate(length);
        let (shorter, whole) = (unmarked(&shorter), unmarked(&whole));
        assert_eq!(shorter.as_array().unwrap()[..], whole.as_array().unwrap()[..length]);
    }
}

#[test]
fn without_tools_those_of_the_conversation_cannot_be_called() {
    let answers = answers();
    let mut request = conversation(&answers);
    request.with_tools = false;
    request.messages.push(Message::User("Sum up.".into()));

    let sent = body(&anthropic(), &request, &[tool("fetch")]);
    assert_eq!(sent["tool_choice"], json!({"type": "none"}));
    assert_eq!(sent["tools"].as_array().unwrap().len(), 1);
    // The results and what follows them are one message.
    let last = sent["messages"].as_array().unwrap().last().unwrap();
    let mark = json!({"type": MARK});
    assert_eq!(
        last["content"],
        json!([
            {"type": "tool_result", "tool_use_id": "c"},
            {"type": "text", "text": "Sum up.", "cache_control": mark},
        ])
    );
    let sent = body(&anthropic(), &request, &[]);
    assert_eq!(sent["tools"][0]["name"], "unavailable");
    assert_eq!(sent["tool_choice"], json!({"type": "none"}));

    let sent = body(&openai(), &request, &[tool("fetch")]);
    assert_eq!(sent["tool_choice"], "none");
    assert_eq!(sent["tools"].as_array().unwrap().len(), 1);
    assert_eq!(body(&openai(), &request, &[]).get("tools"), None);
}

#[test]
fn without_tools_and_calls_no_tools_are_sent() {
    let mut request = request_with("Hi");
    request.with_tools = false;
    for model in [anthropic(), openai()] {
        let sent = body(&model, &request, &[tool("fetch")]);
        assert_eq!((sent.get("tools"), sent.get("tool_choice")), (None, None));
    }
}

#[test]
fn an_empty_answer_is_sent_in_a_form_that_the_wire_accepts() {
    let thinking = json!({"type": "thinking", "thinking": "Hm", "signature": "c2ln"});
    let thought = answer(vec![
        Block::Opaque { wire: "anthropic".to_owned(), value: thinking.clone() },
        text(" "),
    ]);
    for (empty, sent_before) in [(answer(vec![]), vec![]), (thought, vec![thinking])] {
        let mut request = request_with("Hi");
        request.messages.extend([Message::Assistant(&empty), Message::User("Well?".into())]);
        let sent = body(&anthropic(), &request, &[]);
        let content = [sent_before, vec![json!({"type": "text", "text": "(no text)"})]].concat();
        assert_eq!(sent["messages"][1], json!({"role": "assistant", "content": content}));
        let sent = body(&openai(), &request, &[]);
        assert_eq!(sent["messages"][2], json!({"role": "assistant", "content": ""}));
    }
}

#[test]
fn further_parameters_are_sent_unless_the_server_would_reject_them() {
    let extra_body =
        json!({"top_p": 0.9, "tool_choice": "auto", "stream": false, "stream_options": {}});
    let model =
        model(json!({"wire": "openai", "base_url": "http://x/v1", "extra_body": extra_body}));
    let sent = body(&model, &request_with("Hi"), &[]);
    let messages = [
        json!({"role": "system", "content": "You are terse."}),
        json!({"role": "user", "content": "Hi"}),
    ];
    assert_eq!(sent, json!({"model": "main", "top_p": 0.9, "stream": false, "messages": messages}));
    assert_eq!(body(&model, &request_with("Hi"), &[tool("fetch")])["tool_choice"], "auto");
}

#[test]
fn the_token_limit_has_the_name_that_the_server_accepts() {
    let limit = |mut config: Value| {
        config["max_tokens"] = 100.into();
        let sent = body(&model(config), &request_with("Hi"), &[]);
        ["max_tokens", "max_completion_tokens"]
            .into_iter()
            .find(|name| sent.get(name).is_some())
            .unwrap()
    };
    assert_eq!(limit(json!({"wire": "openai"})), "max_completion_tokens");
    assert_eq!(limit(json!({"wire": "openai", "max_tokens_field": "max_tokens"})), "max_tokens");
    assert_eq!(limit(json!({"wire": "openai", "base_url": "http://x/v1"})), "max_tokens");
    assert_eq!(limit(json!({"wire": "anthropic"})), "max_tokens");
}

#[test]
fn without_a_limit_the_server_decides_or_the_wire_has_a_high_one() {
    let sent = |wire: &str| {
        let model = model(json!({"wire": wire, "context_window": 100_000}));
        let window = model.context_window().unwrap();
        let reserved = model.estimate_tokens(&request_with("Hi"), &[]);
        assert!((4096..4300).contains(&reserved), "{reserved}");
        let body = body(&model, &request_with("Hi"), &[]);
        let limits = ["max_tokens", "max_completion_tokens"].map(|name| body[name].as_u64());
        (limits, window.max_output_tokens)
    };
    assert_eq!(sent("openai"), ([None, None], 25_000));
    assert_eq!(sent("anthropic"), ([Some(32_000), None], 25_000));
}

#[test]
fn the_agents_fields_replace_the_models_and_never_those_of_adjutant() {
    let extra = json!({"reasoning_effort": "low", "top_p": 0.9});
    let model = model(json!({"wire": "openai", "temperature": 0.5, "extra_body": extra}));
    let of_agent = json!({
        "reasoning_effort": "high", "temperature": 1, "model": "other", "messages": [], "tools": [],
        "stream": false, "max_tokens": 9, "max_completion_tokens": 9,
    });
    let Value::Object(of_agent) = of_agent else { panic!() };
    let request = Request { extra_body: Some(&of_agent), ..request_with("Hi") };
    let messages = [
        json!({"role": "system", "content": "You are terse."}),
        json!({"role": "user", "content": "Hi"}),
    ];
    let expected = json!({
        "model": "main", "messages": messages, "stream": true,
        "stream_options": {"include_usage": true}, "top_p": 0.9, "reasoning_effort": "high",
        "temperature": 1,
    });
    assert_eq!(body(&model, &request, &[]), expected);
}
