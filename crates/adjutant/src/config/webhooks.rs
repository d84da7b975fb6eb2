//! `[webhooks]`: how the ends of tasks are told.

use std::time::Duration;

use adjutant_agent::{Reach, RetryRules};
use adjutant_worker::WebhookSettings;

use super::problem::Findings;
use super::tree::{Node, Table, Value};
use super::understand::section;

pub fn understand(table: &Table, findings: &mut Findings) -> WebhookSettings {
    let default = WebhookSettings::default();
    let node = |name: &str| section(table, "webhooks")?.get(name);
    let seconds = |name: &str, default: Duration| {
        let said = node(name).and_then(Node::as_number);
        said.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or(default)
    };
    let tries = node("max_tries").and_then(|node| i32::try_from(node.as_integer()?).ok());
    let retries = RetryRules {
        max_tries: tries.unwrap_or(default.retries.max_tries),
        first: seconds("retry_s", default.retries.first),
        longest: seconds("retry_max_s", default.retries.longest),
    };
    if let Some(node) = node("retry_s").or(node("retry_max_s"))
        && retries.first > retries.longest
    {
        let (first, longest) = (retries.first.as_secs_f64(), retries.longest.as_secs_f64());
        let text = format!("must be at most webhooks.retry_max_s, which is {longest}, and is {first}");
        findings.error(&node.place, "webhooks.retry_s", text);
    }
    WebhookSettings {
        reach: Reach::of(node("allow_private").is_some_and(|node| node.value == Value::Flag(true))),
        timeout: seconds("timeout_s", default.timeout),
        retries,
    }
}
