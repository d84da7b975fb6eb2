//! Exports traces over OTLP (HTTP with protobuf), if the standard `OTEL_` variables enable it. The
//! SDK reads `OTEL_TRACES_SAMPLER`, `OTEL_BSP_*` and `OTEL_EXPORTER_OTLP_*` itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use adjutant_worker::model::http_client;
use anyhow::{Context, bail};
use opentelemetry::KeyValue;
use opentelemetry_otlp::{
    OTEL_EXPORTER_OTLP_TIMEOUT_DEFAULT, SpanExporter as OtlpExporter, WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use tokio::runtime::Handle;

const PROTOCOL: &str = "http/protobuf";

/// The tracer provider, if traces are enabled. Must be called on the runtime that will send them.
pub fn traces() -> anyhow::Result<Option<SdkTracerProvider>> {
    if !is_enabled() {
        return Ok(None);
    }
    if let Some(other) = traces_setting("PROTOCOL").filter(|protocol| protocol != PROTOCOL) {
        bail!("OTEL_EXPORTER_OTLP_PROTOCOL: {other:?} is not supported, only {PROTOCOL}");
    }
    let client = http_client().context("cannot create an HTTP client")?;
    let exporter = OtlpExporter::builder().with_http().with_http_client(client).build()?;
    let exporter = Exporter {
        exporter: Arc::new(exporter),
        runtime: Handle::current(),
        timeout: timeout(),
        is_failing: AtomicBool::new(false),
    };
    Ok(Some(
        SdkTracerProvider::builder()
            .with_resource(resource())
            .with_batch_exporter(exporter)
            .build(),
    ))
}

fn is_enabled() -> bool {
    let equals = |name: &str, word: &str| {
        variable(name).is_some_and(|value| value.eq_ignore_ascii_case(word))
    };
    !equals("OTEL_SDK_DISABLED", "true")
        && !equals("OTEL_TRACES_EXPORTER", "none")
        && traces_setting("ENDPOINT").is_some()
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// A setting for traces, or else for all signals.
fn traces_setting(setting: &str) -> Option<String> {
    variable(&format!("OTEL_EXPORTER_OTLP_TRACES_{setting}"))
        .or_else(|| variable(&format!("OTEL_EXPORTER_OTLP_{setting}")))
}

fn timeout() -> Duration {
    let set = traces_setting("TIMEOUT").and_then(|ms| ms.parse().ok());
    set.map_or(OTEL_EXPORTER_OTLP_TIMEOUT_DEFAULT, Duration::from_millis)
}

fn resource() -> Resource {
    let defaults = [
        KeyValue::new("service.name", "adjutant"),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
    ];
    let resource = Resource::builder_empty().with_attributes(defaults).with_detectors(&[
        Box::new(TelemetryResourceDetector),
        Box::new(EnvResourceDetector::new()),
    ]);
    match variable("OTEL_SERVICE_NAME") {
        Some(name) => resource.with_service_name(name).build(),
        None => resource.build(),
    }
}

/// The SDK exports on a thread of its own, without an async runtime. This exporter sends on the
/// runtime of the program.
#[derive(Debug)]
struct Exporter {
    exporter: Arc<OtlpExporter>,
    runtime: Handle,
    timeout: Duration,
    /// Whether the last export failed, which is logged once.
    is_failing: AtomicBool,
}

impl SpanExporter for Exporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let (exporter, timeout) = (self.exporter.clone(), self.timeout);
        let sending = async move { tokio::time::timeout(timeout, exporter.export(batch)).await };
        let sent = match self.runtime.spawn(sending).await {
            Ok(Ok(sent)) => sent,
            Ok(Err(_)) => Err(OTelSdkError::Timeout(timeout)),
            Err(stopped) => Err(OTelSdkError::InternalFailure(stopped.to_string())),
        };
        let was_failing = self.is_failing.swap(sent.is_err(), Ordering::Relaxed);
        match &sent {
            Err(error) if !was_failing => {
                tracing::warn!("export of spans failed, dropping spans: {error}")
            }
            Ok(()) if was_failing => tracing::info!("export of spans works again"),
            Ok(()) | Err(_) => {}
        }
        sent
    }

    fn set_resource(&mut self, resource: &Resource) {
        // The SDK sets the resource before the first export.
        if let Some(exporter) = Arc::get_mut(&mut self.exporter) {
            exporter.set_resource(resource);
        }
    }
}
