//! Whole conversations with the scripted model, which rejects requests that the vendors reject.

use std::time::{Duration, Instant};

use adjutant_agent::{StopReason, ToolOutput};
use adjutant_script::{
    Fault, Script, ScriptServer, Usage, When, empty, fault, raw_tool_call, refusal, status,
    tool_call,
};

use super::*;

const WIRES: [Wire; 2] = [Wire::Anthropic, Wire::OpenAi];

fn model_of(server: &ScriptServer, wire: Wire, stream: Value) -> Model {
    let base = match wire {
        Wire::Anthropic => server.anthropic_base_url(),
        Wire::OpenAi => server.openai_base_url(),
    };
    let config = config(json!({
        "wire": wire.as_str(), "base_url": base, "extra_body": {"stream": stream}, "idle_timeout_s": 5,
        "prices": {"input": 1.0},
    }));
    Model::new("main", &config, http_client().unwrap()).unwrap()
}

fn both_ways() -> impl Iterator<Item = (Wire, Value)> {
    WIRES.into_iter().flat_map(|wire| [(wire, json!(true)), (wire, json!(false))])
}

/// Tool calls, a malformed call, an empty answer, a truncated one and a refusal.
fn five_answers() -> Script {
    let usage =
        Usage { input_tokens: 100, output_tokens: 5, cache_read_tokens: 60, cache_write_tokens: 0 };
    let both = adjutant_script::text("I look at both.")
        .with_thinking("Hm.")
        .and_call("fetch", json!({"q": "ä🦀"}))
        .and_call("now", json!({}))
        .with_usage(usage)
        .chunks(3, Duration::ZERO);
    Script::new()
        .on(When::any())
        .then(both)
        .then(raw_tool_call("fetch", "{\"q\": "))
        .then(empty())
        .then(adjutant_script::text("So far").with_stop("max_tokens"))
        .then(refusal("I will not."))
        .once()
}

#[tokio::test]
async fn a_conversation_with_tools_refusals_and_cut_off_answers_is_accepted_by_the_vendor() {
    for (wire, stream) in both_ways() {
        let server = ScriptServer::start(five_answers()).await.unwrap();
        let model = model_of(&server, wire, stream);
        let tools = [tool("fetch"), tool("now")];

        let mut answers: Vec<Answer> = Vec::new();
        for turn in 1..=5 {
            let mut request = request_with("Look it up.");
            for answer in &answers {
                request.messages.push(Message::Assistant(answer));
                let result = |call: &'_ str| format!("result of {call}");
                let results: Vec<_> = answer
                    .tool_uses()
                    .map(|call| ToolOutput {
                        call: &call.id,
                        content: result(&call.id).into(),
                        is_error: false,
                    })
                    .collect();
                request.messages.push(match results.is_empty() {
                    true => Message::User("And?".into()),
                    false => Message::ToolResults(results),
                });
            }
            request.with_tools = turn < 5;
            let mut text = String::new();
            let reply = model.call(&request, &tools, |delta| text.push_str(delta)).await.unwrap();
            assert_eq!(text, reply.answer.text().unwrap_or_default());
            if turn == 1 {
                let usage = reply.usage;
                assert_eq!(
                    (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens),
                    (100, 5, 60)
                );
                assert_eq!(usage.cost_nanousd, 100_000);
            }
            answers.push(reply.answer);
        }

        let calls: Vec<_> = answers[0]
            .tool_uses()
            .map(|call| (call.name.as_str(), call.arguments.clone()))
            .collect();
        assert_eq!(calls[0], ("fetch", Arguments::Json(json!({"q": "ä🦀"}))));
        assert_eq!(calls[1], ("now", Arguments::Json(json!({}))));
        assert_eq!(answers[0].text().unwrap(), "I look at both.");
        assert_eq!(answers[2].text(), None);
        let ends: Vec<_> = answers[3..]
            .iter()
            .map(|answer| (answer.text().unwrap_or_default(), answer.stop))
            .collect();
        assert_eq!(ends[0], ("So far".to_owned(), StopReason::MaxTokens));
        assert_eq!(ends[1], ("I will not.".to_owned(), StopReason::Refusal));
        server.assert_nothing_answered_twice();
        server.finish();
    }
}

#[tokio::test]
async fn malformed_arguments_are_reported_as_malformed() {
    for wire in WIRES {
        let script = Script::new().on(When::any()).answer(raw_tool_call("fetch", "{\"q\": "));
        let server = ScriptServer::start(script).await.unwrap();
        let reply = model_of(&server, wire, json!(true))
            .call(&request_with("Hi"), &[tool("fetch")], |_| {})
            .await;
        let answer = reply.unwrap().answer;
        let call = answer.tool_uses().next().unwrap();
        assert_eq!(call.arguments, Arguments::Malformed("{\"q\": ".to_owned()));
    }
}

#[tokio::test]
async fn a_broken_answer_is_not_a_permanent_error() {
    for (wire, stream) in both_ways() {
        for broken in [
            Fault::DropBeforeHeaders,
            Fault::DropHalfway,
            Fault::EndHalfway,
            Fault::HalfJson,
            Fault::MalformedJson,
            Fault::ErrorHalfway,
        ] {
            let answers = [fault(broken), adjutant_script::text("Well.")];
            let server =
                ScriptServer::start(Script::new().on(When::any()).answer(answers)).await.unwrap();
            let model = model_of(&server, wire, stream.clone());
            let error = model.call(&request_with("Hi"), &[], |_| {}).await.unwrap_err();
            assert!(
                !matches!(error, CallError::Permanent { .. }),
                "{broken:?} on {wire:?}, {stream}: {error:?}"
            );
            let reply = model.call(&request_with("Hi"), &[], |_| {}).await.unwrap();
            assert_eq!(reply.answer, Answer::of_text("Well."));
        }
    }
}

#[tokio::test]
async fn rate_limits_have_the_requested_pause_in_every_form() {
    for wire in WIRES {
        for limited in [
            status(429).retry_after(30.0),
            status(429).retry_after_date(30.0),
            status(429).reset_after(30.0),
            status(529).retry_after(30.0),
        ] {
            let server =
                ScriptServer::start(Script::new().on(When::any()).answer(limited)).await.unwrap();
            let error = model_of(&server, wire, json!(true))
                .call(&request_with("Hi"), &[], |_| {})
                .await
                .unwrap_err();
            assert!(matches!(error, CallError::RateLimited { .. }), "{error:?}");
            let wait = error.retry_after().unwrap();
            assert!(
                (Duration::from_secs(28)..=Duration::from_secs(31)).contains(&wait),
                "{wait:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_dropped_call_disconnects_within_a_second() {
    for wire in WIRES {
        for hanging in [Fault::HangBeforeHeaders, Fault::HangHalfway] {
            let server = ScriptServer::start(Script::new().on(When::any()).answer(fault(hanging)))
                .await
                .unwrap();
            let model = model_of(&server, wire, json!(true));
            let request = request_with("Hi");
            let (started, mut has_started) = tokio::sync::watch::channel(());
            let call = model.call(&request, &[], |_| started.send_replace(()));
            let dropped_at = tokio::select! {
                reply = call => panic!("{reply:?}"),
                _ = has_started.changed(), if hanging == Fault::HangHalfway => Instant::now(),
                () = server.wait_for_requests(1), if hanging == Fault::HangBeforeHeaders => Instant::now(),
            };
            server.wait_until("the client has gone", |tally| tally.hung_up == 1).await;
            assert!(dropped_at.elapsed() < Duration::from_secs(1));
        }
    }
}

#[tokio::test]
async fn a_call_of_a_tool_without_arguments_has_an_empty_object() {
    for (wire, stream) in both_ways() {
        let script = Script::new().on(When::any()).answer(tool_call("now", json!({})));
        let server = ScriptServer::start(script).await.unwrap();
        let reply = model_of(&server, wire, stream)
            .call(&request_with("Hi"), &[tool("now")], |_| {})
            .await
            .unwrap();
        assert_eq!(reply.answer.tool_uses().next().unwrap().arguments, Arguments::Json(json!({})));
    }
}
