//! `/metrics`: the fleet in the text format of Prometheus, for dashboards, alerts and autoscalers.

use std::fmt::Write;
use std::sync::Arc;

use adjutant_store::{ClosedGate, Fleet, PoolStats};
use axum::Router;
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, HeaderName};
use axum::routing::get;

use super::Shared;
use crate::{Caller, Result, Scope};

const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new().route("/metrics", get(show))
}

/// The fleet's metrics, for Prometheus
///
/// They cover all tenants, so they need the scope `admin`.
#[utoipa::path(
    get, path = "/metrics", tag = "operations",
    responses((status = 200, description = "In the text format.", body = String, content_type = "text/plain"))
)]
pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
) -> Result<([(HeaderName, &'static str); 1], String)> {
    caller.require(&[Scope::Admin])?;
    Ok(([(CONTENT_TYPE, FORMAT)], text(&shared.reads.of_operator().fleet().await?)))
}

fn text(fleet: &Fleet) -> String {
    let mut text = String::new();
    let fleet_wide = [
        ("cap", "Tasks that the whole fleet may run at once.", fleet.cap),
        ("queued_tasks", "Tasks in the state queued, whatever they wait for.", fleet.queued),
        ("unfinished_tasks", "Tasks that have not ended.", fleet.unfinished),
        ("undelivered_webhooks", "Webhook deliveries that are pending.", fleet.undelivered),
    ];
    for (name, help, value) in fleet_wide {
        head(&mut text, name, help);
        line(&mut text, &format!("adjutant_{name} {value}"));
    }
    type PoolValue = fn(&PoolStats) -> Option<String>;
    let of_each_pool: [(&str, &str, PoolValue); 5] = [
        ("ready_tasks", "Queued tasks that may be claimed now.", |pool| {
            Some(pool.ready.to_string())
        }),
        (
            "oldest_ready_seconds",
            "How long ago the oldest task that may be claimed was spawned.",
            |pool| pool.oldest_s.map(|seconds| seconds.to_string()),
        ),
        ("running_tasks", "Tasks that workers run.", |pool| Some(pool.running.to_string())),
        ("workers", "Workers that are alive.", |pool| Some(pool.workers.to_string())),
        ("worker_concurrency", "Tasks that these workers could run at once.", |pool| {
            Some(pool.concurrency.to_string())
        }),
    ];
    for (name, help, read) in of_each_pool {
        head(&mut text, name, help);
        for pool in &fleet.pools {
            if let Some(value) = read(pool) {
                line(
                    &mut text,
                    &format!("adjutant_{name}{{pool=\"{}\"}} {value}", escaped(&pool.name)),
                );
            }
        }
    }
    let gate = "model_gate_closed_seconds";
    head(&mut text, gate, "Models that no worker may call: seconds until the next call.");
    for ClosedGate { model, reason, closed_s } in &fleet.closed_gates {
        let model = escaped(model);
        let labels = format!("{{model=\"{model}\",reason=\"{reason}\"}}");
        line(&mut text, &format!("adjutant_{gate}{labels} {closed_s}"));
    }
    head(&mut text, "build_info", "The version of this server.");
    line(&mut text, &format!("adjutant_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION")));
    text
}

fn head(text: &mut String, name: &str, help: &str) {
    line(text, &format!("# HELP adjutant_{name} {help}\n# TYPE adjutant_{name} gauge"));
}

fn line(text: &mut String, line: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{line}");
}

/// Escapes the value of a label.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_explained_and_every_pool_is_in_it() {
        let pool = |name: &str, oldest_s| PoolStats {
            name: name.to_owned(),
            ready: 7,
            oldest_s,
            running: 3,
            workers: 2,
            concurrency: 20,
        };
        let pools = vec![pool("default", Some(1.5)), pool("g\"p\\u\n", None)];
        let closed_gates = vec![ClosedGate {
            model: "main".to_owned(),
            reason: "circuit".to_owned(),
            closed_s: 12.5,
        }];
        let text = text(&Fleet {
            cap: 50,
            queued: 9,
            unfinished: 12,
            undelivered: 0,
            closed_gates,
            pools,
        });
        let lines: Vec<&str> = text.lines().collect();
        for wanted in [
            "# TYPE adjutant_cap gauge",
            "adjutant_cap 50",
            "adjutant_unfinished_tasks 12",
            "adjutant_queued_tasks 9",
            "adjutant_ready_tasks{pool=\"default\"} 7",
            "adjutant_oldest_ready_seconds{pool=\"default\"} 1.5",
            "adjutant_running_tasks{pool=\"g\\\"p\\\\u\\n\"} 3",
            "adjutant_worker_concurrency{pool=\"default\"} 20",
            "adjutant_model_gate_closed_seconds{model=\"main\",reason=\"circuit\"} 12.5",
        ] {
            assert!(lines.contains(&wanted), "{wanted} is not in\n{text}");
        }
        assert_eq!(
            lines.iter().filter(|line| line.starts_with("adjutant_oldest_ready_seconds")).count(),
            1
        );
        for line in lines.iter().filter(|line| !line.starts_with('#')) {
            let name = line.split(['{', ' ']).next().unwrap();
            assert!(text.contains(&format!("# HELP {name} ")), "{name} is not explained");
        }
    }
}
