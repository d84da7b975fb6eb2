use std::time::Duration;

use adjutant_agent::TaskState;
use adjutant_script::{Script, When, status, text, tool_call};
use adjutant_store::NewTask;
use adjutant_worker::trace;
use opentelemetry::trace::TracerProvider;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_sdk::trace::SdkTracerProvider;
use serde_json::json;
use tracing::Instrument;
use tracing::instrument::WithSubscriber;
use tracing_subscriber::layer::SubscriberExt;

use crate::support::otlp_collector::{Collector, attribute};
use crate::support::worker_process::WorkerProcess;
use crate::support::world::until;
use crate::worker::telemetry::traced_fleet::{TracedFleet, agent};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

fn spawned_in_a_trace(tools: &[&str]) -> NewTask {
    NewTask { traceparent: Some(format!("00-{TRACE}-{SPAN}-01")), ..agent("Count.", tools) }
}

/// A model whose second answer hangs the first time that it is requested.
fn hangs_once() -> Script {
    let hangs = text("Too late.").delay(Duration::from_secs(600));
    Script::new()
        .on(When::any())
        .then(tool_call("list_files", json!({})))
        .then([hangs, text("Three.")])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_an_error(span: &Span) -> bool {
    span.status.as_ref().is_some_and(|status| status.code() == StatusCode::Error)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_trace_goes_from_the_spawn_through_a_killed_worker_to_every_call() {
    let (fleet, collector) = (TracedFleet::new(hangs_once()).await, Collector::start().await);
    let number = fleet.spawn(spawned_in_a_trace(&["list_files"])).await;
    let mut first = WorkerProcess::start(&mut fleet.work(&collector.url));
    collector.has("execute_tool list_files", 1).await;
    collector.has("chat gpt-test", 1).await;
    fleet.model.wait_for_requests(2).await;
    first.kill();
    let _second = WorkerProcess::start(&mut fleet.work(&collector.url));
    fleet.until_ended(number, TaskState::Completed).await;
    collector.has("invoke_agent researcher", 1).await;
    collector.has("chat gpt-test", 2).await;

    let spans = collector.spans();
    assert!(spans.iter().all(|span| hex(&span.trace_id) == TRACE), "{spans:#?}");
    // The killed worker did not export the span of its attempt, but its child spans name it.
    let [invoked] = &collector.named("invoke_agent researcher")[..] else { panic!("{spans:#?}") };
    assert_eq!(hex(&invoked.parent_span_id), SPAN);
    assert_eq!(invoked.kind(), SpanKind::Internal);
    assert_eq!(attribute(invoked, "task.attempt").as_deref(), Some("2"));
    let [chat, again] = &collector.named("chat gpt-test")[..] else { panic!("{spans:#?}") };
    let [tool] = &collector.named("execute_tool list_files")[..] else { panic!("{spans:#?}") };
    assert_eq!(again.parent_span_id, invoked.span_id);
    assert_eq!(chat.parent_span_id, tool.parent_span_id);
    assert_ne!(chat.parent_span_id, invoked.span_id);
    assert_eq!((chat.kind(), tool.kind()), (SpanKind::Client, SpanKind::Internal));
    assert!(!spans.iter().any(is_an_error), "{spans:#?}");
    for (span, key, value) in [
        (invoked, "gen_ai.operation.name", "invoke_agent"),
        (invoked, "gen_ai.agent.name", "researcher"),
        (invoked, "gen_ai.provider.name", "openai"),
        (invoked, "gen_ai.request.model", "gpt-test"),
        (invoked, "session.id", "review"),
        (invoked, "task.number", "t_01"),
        (invoked, "task.outcome", "completed"),
        (chat, "gen_ai.operation.name", "chat"),
        (chat, "gen_ai.provider.name", "openai"),
        (chat, "gen_ai.request.model", "gpt-test"),
        (chat, "server.address", "127.0.0.1"),
        (tool, "gen_ai.operation.name", "execute_tool"),
        (tool, "gen_ai.tool.name", "list_files"),
    ] {
        assert_eq!(attribute(span, key).as_deref(), Some(value), "{key} of {}", span.name);
    }
    for key in [
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.output_tokens",
        "gen_ai.usage.cache_read.input_tokens",
    ] {
        assert!(attribute(chat, key).is_some(), "{key}");
    }
    let queued_ms: i64 = attribute(invoked, "task.queued_ms").unwrap().parse().unwrap();
    assert!(queued_ms >= 0);
    assert_eq!(attribute(chat, "gen_ai.conversation.id"), attribute(invoked, "task.id"));
    assert_eq!(collector.services().into_iter().collect::<Vec<_>>(), ["adjutant"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draining_worker_sends_its_last_spans_and_the_next_attempt_is_in_the_same_trace() {
    let (fleet, collector) = (TracedFleet::new(hangs_once()).await, Collector::start().await);
    let number = fleet.spawn(spawned_in_a_trace(&["list_files"])).await;
    let work = || {
        let mut command = fleet.work(&collector.url);
        // Nothing is sent before the end.
        command.env("OTEL_BSP_SCHEDULE_DELAY", "600000").env("OTEL_SERVICE_NAME", "fleet");
        command.args(["--grace-seconds", "2"]);
        command
    };
    let mut first = WorkerProcess::start(&mut work());
    fleet.model.wait_for_requests(2).await;
    first.signal("TERM");
    assert!(first.exited().await.success());
    assert_eq!(collector.named("invoke_agent researcher").len(), 1);
    let mut second = WorkerProcess::start(&mut work());
    fleet.until_ended(number, TaskState::Completed).await;
    second.signal("TERM");
    assert!(second.exited().await.success());

    let invoked = collector.named("invoke_agent researcher");
    let lines_about =
        |key| invoked.iter().map(|span| attribute(span, key).unwrap()).collect::<Vec<_>>();
    assert_eq!(lines_about("task.attempt"), ["1", "2"]);
    assert_eq!(lines_about("task.outcome"), ["released", "completed"]);
    assert!(
        invoked
            .iter()
            .all(|span| hex(&span.trace_id) == TRACE && hex(&span.parent_span_id) == SPAN)
    );
    assert_eq!(collector.services().into_iter().collect::<Vec<_>>(), ["fleet"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_an_error_in_its_span_and_in_the_log() {
    let script = Script::new()
        .on(When::any())
        .then(tool_call("read_file", json!({"path": "missing"})))
        .then(status(400).with_error("invalid_request_error", "no"));
    let (fleet, collector) = (TracedFleet::new(script).await, Collector::start().await);
    let number = fleet.spawn(agent("Fail.", &["read_file"])).await;
    let worker = WorkerProcess::start(&mut fleet.work(&collector.url));
    fleet.until_ended(number, TaskState::Failed).await;
    collector.has("invoke_agent researcher", 1).await;
    let errors: Vec<_> = collector.spans().into_iter().filter(is_an_error).collect();
    let mut kinds: Vec<_> = errors
        .iter()
        .map(|span| (span.name.clone(), attribute(span, "error.type").unwrap()))
        .collect();
    kinds.sort();
    let expected = [
        ("chat gpt-test", "permanent"),
        ("execute_tool read_file", "tool_error"),
        ("invoke_agent researcher", "model"),
    ];
    assert_eq!(kinds, expected.map(|(name, kind)| (name.to_owned(), kind.to_owned())));
    assert!(errors.iter().all(|span| span.status.as_ref().unwrap().message.is_empty()));
    until("the end is logged", async || !worker.log_lines("end").is_empty()).await;
    let [end] = &worker.log_lines("end")[..] else { panic!("{}", worker.stderr()) };
    assert_eq!((&end["task.status"], &end["task.failure"]), (&json!("failed"), &json!("model")));
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_without_a_traceparent_continue_the_trace_of_their_spawn() {
    let fleet = TracedFleet::new(Script::new()).await;
    let provider = SdkTracerProvider::builder().build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let subscriber = tracing_subscriber::registry().with(layer);
    let spawning = async {
        let spawning = async {
            let tasks = [agent("One.", &[]), spawned_in_a_trace(&[])];
            trace::spawn(&fleet.world.store, fleet.session, &tasks, None).await.unwrap();
            trace::traceparent().unwrap()
        };
        let span = tracing::info_span!("an orchestrator's call");
        spawning.instrument(span).await
    };
    let here = spawning.with_subscriber(subscriber).await;
    let stored: Vec<Option<String>> =
        sqlx::query_scalar("select traceparent from task order by number")
            .fetch_all(&fleet.world.sql)
            .await
            .unwrap();
    let [Some(own), Some(given)] = &stored[..] else { panic!("{stored:?}") };
    let parts = |traceparent: &str| traceparent.split('-').map(str::to_owned).collect::<Vec<_>>();
    let (own, here) = (parts(own), parts(&here));
    assert_eq!(own[1], here[1], "the same trace");
    assert_ne!(own[2], here[2], "below a span of the spawn itself");
    assert_eq!(*given, format!("00-{TRACE}-{SPAN}-01"));
    // Without telemetry there is no trace to continue.
    assert_eq!(trace::traceparent(), None);
}
