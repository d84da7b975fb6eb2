//! SmolLM2 with 135 million parameters on llama.cpp's server, which has both wires. The model is
//! too small to call tools.

use std::process::Command;
use std::time::{Duration, Instant};

use adjutant_agent::{FailureKind, Message, Outcome, Request};
use adjutant_worker::model::{Model, ModelConfig, Wire, http_client};
use serde_json::{Value, json};

use crate::real::program::{Program, get, installed};
use crate::real::site::Site;
use crate::support::world::until_within;

const WIRES: [Wire; 2] = [Wire::OpenAi, Wire::Anthropic];

async fn model() -> Program {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/real/model.py");
    Program::start(Command::new(installed("python/bin/python")).arg(script)).await
}

fn base_url(program: &Program, wire: Wire) -> String {
    let path = match wire {
        Wire::Anthropic => "",
        Wire::OpenAi => "/v1",
    };
    format!("http://{}{path}", program.address())
}

/// A config with a model and an agent for each wire, both with the name of the wire.
async fn site(program: &Program) -> Site {
    let tables = WIRES.map(|wire| {
        let (name, base_url) = (wire.as_str(), base_url(program, wire));
        format!(
            r#"
[models.{name}]
wire = "{name}"
base_url = "{base_url}"
model = "smollm2"
temperature = 0
max_tokens = 400
prices = {{ input = 1.0, output = 2.0 }}

[agents.{name}]
description = "Answers"
system_prompt = "You are helpful."
model = "{name}"
"#
        )
    });
    Site::new(&format!("default_model = \"openai\"\n{}", tables.concat())).await
}

/// The numbers of slots of the model server that have started an answer, and that are busy.
async fn slots(program: &Program) -> (usize, usize) {
    let slots = get(&program.address(), "/slots", "").await;
    let busy: Vec<&Value> =
        slots.as_array().unwrap().iter().filter(|slot| slot["is_processing"] == true).collect();
    let decoded = |slot: &&&Value| slot["next_token"][0]["n_decoded"].as_i64().unwrap_or(0) >= 3;
    (busy.iter().filter(decoded).count(), busy.len())
}

async fn until_it_talks(program: &Program) {
    let patience = Duration::from_secs(120);
    until_within(patience, "the model talks", async || slots(program).await.0 == 1).await;
}

async fn until_it_is_silent(program: &Program) {
    let patience = Duration::from_secs(10);
    until_within(patience, "the model is silent", async || slots(program).await.1 == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-real"]
async fn a_real_model_completes_tasks_and_its_tokens_are_counted() {
    let model = model().await;
    let site = site(&model).await;
    let _worker = site.worker();
    for wire in WIRES {
        let began = Instant::now();
        let task = site.delegate(wire.as_str(), "What is the capital of France?").await;
        let (status, result) = site.completed(&task).await;
        assert!(result.contains("Paris"), "{result}");
        let spent = status.spent();
        assert!(
            (20..500).contains(&spent.input_tokens) && (3..=400).contains(&spent.output_tokens),
            "{spent:?}"
        );
        assert_eq!(spent.cost_nanousd, spent.input_tokens * 1000 + spent.output_tokens * 2000);
        println!("{}: {result:?}, {spent:?}, {:?}", wire.as_str(), began.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-real"]
async fn a_real_model_is_heard_word_by_word() {
    let program = model().await;
    for wire in WIRES {
        let config = json!({
            "wire": wire.as_str(), "base_url": base_url(&program, wire), "max_tokens": 30,
            "extra_body": {"ignore_eos": true},
        });
        let config: ModelConfig = serde_json::from_value(config).unwrap();
        let model = Model::new("local", &config, http_client().unwrap()).unwrap();
        let request = Request {
            system: "You are helpful.".to_owned(),
            messages: vec![Message::User("Tell me a story.".into())],
            with_tools: false,
            extra_body: None,
        };
        let mut heard: Vec<(Instant, String)> = Vec::new();
        let reply =
            model.call(&request, &[], |delta| heard.push((Instant::now(), delta.to_owned()))).await;
        let reply = reply.unwrap();
        let text: String = heard.iter().map(|(_, delta)| delta.as_str()).collect();
        assert_eq!(reply.answer.text().as_deref(), Some(text.as_str()));
        assert_eq!(reply.usage.output_tokens, 30);
        let span = heard[heard.len() - 1].0 - heard[0].0;
        assert!(
            heard.len() >= 20 && span > Duration::from_millis(20),
            "{} within {span:?}",
            heard.len()
        );
        println!("{}: {} deltas within {span:?}", wire.as_str(), heard.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-real"]
async fn a_worker_killed_while_a_real_model_talks_is_replaced_and_the_task_completes() {
    let model = model().await;
    let site = site(&model).await;
    for wire in WIRES {
        let mut first = site.worker();
        let task = site.delegate(wire.as_str(), "Explain in a few sentences what rain is.").await;
        until_it_talks(&model).await;
        first.kill();
        until_it_is_silent(&model).await;
        let _second = site.worker();
        let (status, result) = site.completed(&task).await;
        assert!(result.contains("water"), "{result}");
        assert_eq!((status.attempt, status.turns_used), (2, 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-real"]
async fn a_cancelled_task_silences_a_real_model() {
    let model = model().await;
    let site = site(&model).await;
    let _worker = site.worker();
    for wire in WIRES {
        // The answer has no end of its own.
        let task = site.delegate(wire.as_str(), "Name ten animals.").await;
        until_it_talks(&model).await;
        let began = Instant::now();
        site.world.store.cancel(task.id).await.unwrap();
        until_it_is_silent(&model).await;
        let took = began.elapsed();
        assert!(took < Duration::from_secs(1), "silent after {took:?}");
        assert!(matches!(site.outcome(&task).await.1, Outcome::Cancelled { .. }));
        assert_eq!(site.turns(&task).await, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-real"]
async fn a_refusal_of_a_real_server_fails_the_task_at_once_with_its_message() {
    let model = model().await;
    let site = site(&model).await;
    let _worker = site.worker();
    for wire in WIRES {
        // Within the limit of an assignment, but larger than the model's context window.
        let task = site.delegate(wire.as_str(), &"§ ".repeat(2000)).await;
        let (status, outcome) = site.outcome(&task).await;
        let Outcome::Failed { failure: FailureKind::Model, error, .. } = outcome else {
            panic!("{outcome:?}")
        };
        assert!(
            error.starts_with("Model API error: 400 ") && error.contains("context size"),
            "{error}"
        );
        assert_eq!((status.attempt, status.turns_used), (1, 0));
    }
}
