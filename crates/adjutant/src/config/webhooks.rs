//! `[webhooks]`: how the ends of tasks are delivered to webhooks.

use std::time::Duration;

use adjutant_agent::{NetworkPolicy, RetryPolicy};
use adjutant_worker::WebhookSettings;

use super::assemble::section;
use super::problem::Findings;
use super::schema::{Kind, Setting, settings};
use super::tree::{Node, Table};

pub const SETTINGS: &[Setting] = settings! {
    "webhooks.allow_private" => Kind::Boolean,
    "webhooks.timeout_s" => Kind::Number { min: 0.1, max: 300.0 },
    "webhooks.max_tries" => Kind::Integer { min: 1, max: 100 },
    "webhooks.retry_s" => Kind::Number { min: 0.01, max: 86_400.0 },
    "webhooks.retry_max_s" => Kind::Number { min: 0.01, max: 604_800.0 },
};

pub fn read(table: &Table, findings: &mut Findings) -> WebhookSettings {
    let default = WebhookSettings::default();
    let setting = |name: &str| section(table, "webhooks")?.get(name);
    let seconds = |name: &str, default: Duration| {
        let given = setting(name).and_then(Node::as_number);
        given.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or(default)
    };
    let tries = setting("max_tries").and_then(|node| i32::try_from(node.as_integer()?).ok());
    let retries = RetryPolicy {
        max_tries: tries.unwrap_or(default.retries.max_tries),
        first_pause: seconds("retry_s", default.retries.first_pause),
        max_pause: seconds("retry_max_s", default.retries.max_pause),
    };
    if let Some(node) = setting("retry_s").or(setting("retry_max_s"))
        && retries.first_pause > retries.max_pause
    {
        let (first, longest) = (retries.first_pause.as_secs_f64(), retries.max_pause.as_secs_f64());
        let text = format!("must be at most webhooks.retry_max_s ({longest}), not {first}");
        findings.error(&node.location, "webhooks.retry_s", text);
    }
    WebhookSettings {
        network: NetworkPolicy::of(setting("allow_private").is_some_and(Node::is_true)),
        timeout: seconds("timeout_s", default.timeout),
        retries,
    }
}
