//! An unreachable collector causes a warning and nothing else.

use std::time::{Duration, Instant};

use adjutant_agent::TaskState;
use adjutant_script::{Script, When, text};
use serde_json::Value;
use tokio::net::TcpListener;

use crate::support::otlp_collector::Collector;
use crate::support::worker_process::WorkerProcess;
use crate::worker::telemetry::traced_fleet::{TracedFleet, agent};

/// Less than the 5 s that the SDK would take, and than the 10 s of one export.
const AT_MOST: Duration = Duration::from_millis(4500);

fn answers() -> Script {
    Script::new().on(When::any()).answer(text("Done."))
}

/// From the signal to the end of the process.
async fn leaving(worker: &mut WorkerProcess) -> Duration {
    let began = Instant::now();
    worker.signal("TERM");
    assert!(worker.exited().await.success());
    began.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_collector_is_logged_once() {
    let fleet = TracedFleet::new(answers()).await;
    let mut command = fleet.work("http://127.0.0.1:1");
    let mut worker = WorkerProcess::start(command.env("OTEL_EXPORTER_OTLP_TIMEOUT", "50"));
    for nth in 0..3 {
        let number = fleet.spawn(agent("Do it.", &[])).await;
        fleet.until_ended(number, TaskState::Completed).await;
        if nth == 0 {
            worker.until_logged("export of spans failed").await;
        }
    }
    assert!(leaving(&mut worker).await < AT_MOST);
    assert_eq!(worker.stderr().matches("export of spans failed").count(), 1, "{}", worker.stderr());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_does_not_answer_holds_up_neither_work_nor_exit() {
    let fleet = TracedFleet::new(answers()).await;
    // It accepts connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let mut worker = WorkerProcess::start(&mut fleet.work(&url));
    let number = fleet.spawn(agent("Do it.", &[])).await;
    fleet.until_ended(number, TaskState::Completed).await;
    // An export hangs.
    let (_connection, _) = silent.accept().await.unwrap();
    let number = fleet.spawn(agent("Do it again.", &[])).await;
    fleet.until_ended(number, TaskState::Completed).await;
    assert!(leaving(&mut worker).await < AT_MOST);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_when_the_sdk_is_disabled_or_the_protocol_is_unsupported() {
    let (fleet, collector) = (TracedFleet::new(answers()).await, Collector::start().await);
    for (variable, value, says) in [
        ("OTEL_SDK_DISABLED", "true", None),
        ("OTEL_TRACES_EXPORTER", "none", None),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", Some("http/protobuf")),
    ] {
        let mut worker = WorkerProcess::start(fleet.work(&collector.url).env(variable, value));
        let number = fleet.spawn(agent("Do it.", &[])).await;
        fleet.until_ended(number, TaskState::Completed).await;
        leaving(&mut worker).await;
        assert!(collector.spans().is_empty(), "{variable}");
        assert_eq!(worker.stderr().contains("traces are disabled"), says.is_some(), "{variable}");
        assert!(worker.stderr().contains(says.unwrap_or_default()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_are_json_without_a_terminal_and_text_with_the_flag() {
    let fleet = TracedFleet::new(answers()).await;
    for (format, is_json) in [("auto", true), ("json", true), ("text", false)] {
        let mut command = fleet.work("");
        let mut worker = WorkerProcess::start(command.env("ADJUTANT_LOG_FORMAT", format));
        leaving(&mut worker).await;
        let said = worker.stderr();
        assert!(said.lines().count() > 0);
        let reads = said.lines().all(|line| serde_json::from_str::<Value>(line).is_ok());
        assert_eq!(reads, is_json, "{format}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_for_people_have_the_message_and_no_fields() {
    let fleet = TracedFleet::new(answers()).await;
    let mut command = fleet.work("");
    let mut worker = WorkerProcess::start(command.env("ADJUTANT_LOG_FORMAT", "text"));
    let number = fleet.spawn(agent("Do it.", &[])).await;
    fleet.until_ended(number, TaskState::Completed).await;
    leaving(&mut worker).await;
    let said = worker.stderr();
    let line = said.lines().find(|line| line.contains(" started ")).unwrap();
    assert!(line.contains(" INFO task t_01 of "), "{line}");
    assert!(!said.contains("task.id="), "{said}");
}
