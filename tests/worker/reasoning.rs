//! What models say about their reasoning goes back to them, through a worker and its database: the
//! scripted server refuses a tool call without it, as the vendors do.

use adjutant_script::{Script, When, raw_tool_call, text, tool_call};
use serde_json::json;

use crate::support::fleet::{CLERK, Fleet, WIRES, model_config};

#[tokio::test(flavor = "multi_thread")]
async fn reasoning_and_signatures_go_back_on_both_wires() {
    let details = json!([
        {"type": "reasoning.text", "text": "Look it up, then pay.", "format": "x", "index": 0},
        {"type": "reasoning.encrypted", "data": "b3BhcXVl", "id": "r1", "index": 1},
    ]);
    let signed = json!({"google": {"thought_signature": "c2lnbmVk"}});
    let looks = text("I look.")
        .with_thinking("Look it up, then pay.")
        .with_field("reasoning_content", json!("Look it up, then pay."))
        .with_field("reasoning_details", details)
        .and_call("lookup", json!({"word": "a"}))
        .with_call_field("extra_content", signed.clone())
        .and_call("lookup", json!({"word": "b"}))
        .chunks(5, std::time::Duration::ZERO);
    let pays = tool_call("pay", json!({"amount": 1}))
        .with_thinking("Now pay.")
        .with_field("reasoning_content", json!("Now pay."))
        .with_call_field("extra_content", signed);
    let script = Script::new().on(When::any()).then(looks).then(pays).then(text("Paid."));
    let fleet = Fleet::new(script).await;
    let _worker = fleet.worker();
    for done in fleet.run_on_both(CLERK, "Look it up and pay").await {
        done.assert_completed("Paid.");
        assert_eq!((done.requests.len(), done.turns_used), (3, 3), "no request was refused");
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_was_cut_off_at_the_token_limit_is_not_made_and_the_model_is_told() {
    let cut_off = [
        ("without arguments", raw_tool_call("pay", "")),
        ("in its arguments", raw_tool_call("pay", "{\"amount\": ")),
        ("after its arguments", tool_call("pay", json!({"amount": 1}))),
    ];
    let mut script = Script::new();
    for (assignment, answer) in cut_off.clone() {
        let answer = answer.with_stop("max_tokens");
        script = script.on(When::assignment(assignment)).then(answer).then(text("I was told."));
    }
    let fleet = Fleet::new(script).await;
    let _worker = fleet.worker();
    for (assignment, _) in cut_off {
        for done in fleet.run_on_both(CLERK, assignment).await {
            done.assert_completed("I was told.");
            let result = format!("error: {}", adjutant_agent::prompts::CALL_CUT_OFF);
            assert_eq!(done.results_of(1), [result.as_str()], "{}", done.assignment);
            let body = done.requests[1].body.as_ref().unwrap().to_string();
            assert!(body.contains(&result["error: ".len()..]), "{body}");
            assert_eq!(fleet.tools.calls_by(done.task, "pay").len(), 0, "{}", done.assignment);
        }
    }
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fields_of_an_agent_replace_those_of_its_model_in_every_request() {
    let fleet = Fleet::with(Script::new().on(When::any()).then(text("So.")), |model| {
        let more = "extra_body = { reasoning_effort = \"low\", seed = 7 }";
        let models = WIRES.map(|wire| model_config(&format!("{wire}_low"), wire, model, more));
        let agent = "[agents.thinker]\ndescription = \"Thinks\"\nsystem_prompt = \"You think.\"\n";
        models.concat()
            + agent
            + "extra_body = { reasoning_effort = \"high\", temperature = 0.2 }\n"
    })
    .await;
    let _worker = fleet.worker();
    for wire in WIRES {
        let model = format!("{wire}_low");
        let done = fleet.give(&model, "thinker", &format!("Think ({wire}).")).await;
        let done = fleet.done(done).await;
        done.assert_completed("So.");
        let body = done.requests[0].body.clone().unwrap();
        let fields = ["reasoning_effort", "seed", "temperature"].map(|name| body[name].clone());
        assert_eq!(fields, [json!("high"), json!(7), json!(0.2)]);
        assert_eq!(body["max_tokens"].as_u64(), (wire == "anthropic").then_some(32_000));
    }
    fleet.close().await;
}
