//! Traces over OTLP, as HTTP with protobuf, if the standard `OTEL_` variables ask for them. The SDK itself reads
//! `OTEL_TRACES_SAMPLER`, `OTEL_BSP_*` and `OTEL_EXPORTER_OTLP_*`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use adjutant_worker::model::http_client;
use anyhow::{Context, bail};
use opentelemetry::KeyValue;
use opentelemetry_otlp::{OTEL_EXPORTER_OTLP_TIMEOUT_DEFAULT, SpanExporter as OtlpExporter, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use tokio::runtime::Handle;

const PROTOCOL: &str = "http/protobuf";

/// Where spans go, if they are to go anywhere. To be called on the runtime that will send them.
pub fn traces() -> anyhow::Result<Option<SdkTracerProvider>> {
    if !is_wanted() {
        return Ok(None);
    }
    if let Some(other) = either("PROTOCOL").filter(|protocol| protocol != PROTOCOL) {
        bail!("OTEL_EXPORTER_OTLP_PROTOCOL: {other:?} is not spoken here, only {PROTOCOL}");
    }
    let client = http_client().context("cannot make an HTTP client")?;
    let exporter = OtlpExporter::builder().with_http().with_http_client(client).build()?;
    let exporter = Exporter {
        exporter: Arc::new(exporter),
        runtime: Handle::current(),
        patience: patience(),
        is_away: AtomicBool::new(false),
    };
    Ok(Some(SdkTracerProvider::builder().with_resource(resource()).with_batch_exporter(exporter).build()))
}

fn is_wanted() -> bool {
    let says = |name: &str, word: &str| variable(name).is_some_and(|value| value.eq_ignore_ascii_case(word));
    !says("OTEL_SDK_DISABLED", "true")
        && !says("OTEL_TRACES_EXPORTER", "none")
        && either("ENDPOINT").is_some()
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// What is said of traces, or else of everything.
fn either(setting: &str) -> Option<String> {
    variable(&format!("OTEL_EXPORTER_OTLP_TRACES_{setting}"))
        .or_else(|| variable(&format!("OTEL_EXPORTER_OTLP_{setting}")))
}

fn patience() -> Duration {
    let set = either("TIMEOUT").and_then(|ms| ms.parse().ok());
    set.map_or(OTEL_EXPORTER_OTLP_TIMEOUT_DEFAULT, Duration::from_millis)
}

fn resource() -> Resource {
    let ours = [
        KeyValue::new("service.name", "adjutant"),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
    ];
    let resource = Resource::builder_empty()
        .with_attributes(ours)
        .with_detectors(&[Box::new(TelemetryResourceDetector), Box::new(EnvResourceDetector::new())]);
    match variable("OTEL_SERVICE_NAME") {
        Some(name) => resource.with_service_name(name).build(),
        None => resource.build(),
    }
}

/// The SDK exports on a thread of its own, where no async client works: this one sends on the runtime.
#[derive(Debug)]
struct Exporter {
    exporter: Arc<OtlpExporter>,
    runtime: Handle,
    patience: Duration,
    /// The last try failed, and it has been said.
    is_away: AtomicBool,
}

impl SpanExporter for Exporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let (exporter, patience) = (self.exporter.clone(), self.patience);
        let sending = async move { tokio::time::timeout(patience, exporter.export(batch)).await };
        let sent = match self.runtime.spawn(sending).await {
            Ok(Ok(sent)) => sent,
            Ok(Err(_)) => Err(OTelSdkError::Timeout(patience)),
            Err(stopped) => Err(OTelSdkError::InternalFailure(stopped.to_string())),
        };
        let was_away = self.is_away.swap(sent.is_err(), Ordering::Relaxed);
        match &sent {
            Err(error) if !was_away => {
                tracing::warn!("spans cannot be sent, and are dropped until they can: {error}")
            }
            Ok(()) if was_away => tracing::info!("spans can be sent again"),
            Ok(()) | Err(_) => {}
        }
        sent
    }

    fn set_resource(&mut self, resource: &Resource) {
        // Nothing is under way before there is a resource.
        if let Some(exporter) = Arc::get_mut(&mut self.exporter) {
            exporter.set_resource(resource);
        }
    }
}
