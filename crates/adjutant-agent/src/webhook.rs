//! Who is told how tasks end: a URL of the caller's, and which ends.

mod retry;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;

pub use retry::{Answered, RetryRules, Verdict};

use crate::fields::{Fields, text_in};
use crate::words::{word_schema, words};
use crate::{NetworkPolicy, Refusal, TaskState};

words! {
    /// What a webhook is told, in the words of the wire.
    WebhookEvent {
        Completed = "task.completed",
        Failed = "task.failed",
        Cancelled = "task.cancelled",
    }
}

word_schema!(WebhookEvent);

words! {
    /// Whether a webhook has received the end of a task.
    DeliveryState {
        Pending = "pending",
        Delivered = "delivered",
        Failed = "failed",
    }
}

word_schema!(DeliveryState);

impl WebhookEvent {
    /// The event of a task that has come to this state, if it is an end.
    pub fn of(state: TaskState) -> Option<Self> {
        match state {
            TaskState::Completed => Some(Self::Completed),
            TaskState::Failed => Some(Self::Failed),
            TaskState::Cancelled => Some(Self::Cancelled),
            TaskState::Queued | TaskState::Running | TaskState::Waiting => None,
        }
    }
}

/// A URL that is told how tasks end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = TaskWebhook)]
pub struct Webhook {
    pub url: String,
    /// At least one, each once.
    pub events: Vec<WebhookEvent>,
}

impl Webhook {
    pub const MAX_URL_CHARS: usize = 2048;

    /// Reads `{url, events?}`; what is wrong is named with the field before it, as `webhook.url`.
    pub fn read(field: &str, value: &Value) -> Result<Self, Refusal> {
        if !value.is_object() {
            return Err(Refusal::invalid(field, "must be an object with a url"));
        }
        let mut fields = Fields::of(value)?;
        let named = |name: &str| format!("{field}.{name}");
        let url =
            fields.take("url").ok_or_else(|| Refusal::invalid(&named("url"), "is required"))?;
        let url = text_in(&named("url"), url)?;
        if url.chars().count() > Self::MAX_URL_CHARS {
            let most = Self::MAX_URL_CHARS;
            return Err(Refusal::invalid(
                &named("url"),
                format_args!("must have at most {most} characters"),
            ));
        }
        parsed(&named("url"), url)?;
        let events = match fields.take("events") {
            Some(events) => read_events(&named("events"), events)?,
            None => WebhookEvent::ALL.to_vec(),
        };
        fields.end().map_err(|refusal| Refusal::new(refusal.code, named(&refusal.message)))?;
        Ok(Self { url: url.to_owned(), events })
    }

    /// Refuses a URL that leads where nothing is sent to; the addresses of its name are looked at when it is sent to.
    pub fn check(&self, field: &str, reach: NetworkPolicy) -> Result<(), Refusal> {
        let field = format!("{field}.url");
        let url = parsed(&field, &self.url)?;
        if reach == NetworkPolicy::Public && url.scheme() != "https" {
            return Err(Refusal::invalid(&field, "must begin with https://"));
        }
        reach.check(&url).map_err(|why| Refusal::invalid(&field, why))
    }
}

fn parsed(field: &str, url: &str) -> Result<Url, Refusal> {
    let wrong =
        |why: &dyn std::fmt::Display| Refusal::invalid(field, format_args!("is not a URL: {why}"));
    // A parser takes these out without a word.
    if url.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(wrong(&"it has blanks in it"));
    }
    let parsed = Url::parse(url).map_err(|error| wrong(&error))?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(Refusal::invalid(field, "must begin with https://"));
    }
    // A parser takes more in a name than any resolver does.
    let is_name = |name: &str| {
        name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
    };
    if parsed.domain().is_some_and(|name| !is_name(name)) {
        return Err(wrong(&"its host is no name"));
    }
    Ok(parsed)
}

fn read_events(field: &str, value: &Value) -> Result<Vec<WebhookEvent>, Refusal> {
    let items = value.as_array().ok_or_else(|| Refusal::invalid(field, "must be an array"))?;
    if items.is_empty() {
        return Err(Refusal::invalid(field, "must name at least one event"));
    }
    let mut events = Vec::new();
    for (place, item) in items.iter().enumerate() {
        let field = format!("{field}[{place}]");
        let event = text_in(&field, item)?.parse().map_err(|_| {
            let words: Vec<&str> = WebhookEvent::ALL.iter().map(|event| event.as_str()).collect();
            Refusal::invalid(&field, format_args!("must be one of {}", words.join(", ")))
        })?;
        if events.contains(&event) {
            return Err(Refusal::invalid(&field, "appears twice"));
        }
        events.push(event);
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_webhook_is_a_url_and_all_ends_unless_it_says_which() {
        let read =
            Webhook::read("webhook", &json!({"url": "https://example.com/a?b=c", "events": null}));
        let read = read.unwrap();
        assert_eq!(
            (read.url.as_str(), read.events.as_slice()),
            ("https://example.com/a?b=c", WebhookEvent::ALL)
        );
        let some = json!({"url": "https://example.com", "events": ["task.failed"], "colour": null});
        assert_eq!(Webhook::read("webhook", &some).unwrap().events, [WebhookEvent::Failed]);
        let longest = format!("https://example.com/{}", "é".repeat(Webhook::MAX_URL_CHARS - 20));
        Webhook::read("webhook", &json!({"url": longest})).unwrap();
    }

    #[test]
    fn what_is_wrong_is_refused_by_its_name() {
        let url = "https://example.com";
        for (value, field) in [
            (json!("https://example.com"), "webhook"),
            (json!([]), "webhook"),
            (json!(true), "webhook"),
            (json!({}), "webhook.url"),
            (json!({"url": null}), "webhook.url"),
            (json!({"url": 1}), "webhook.url"),
            (json!({"url": ""}), "webhook.url"),
            (json!({"url": "example.com"}), "webhook.url"),
            (json!({"url": "/relative"}), "webhook.url"),
            (json!({"url": "https://"}), "webhook.url"),
            (json!({"url": "https://exa mple.com"}), "webhook.url"),
            (json!({"url": "https://example.com\n"}), "webhook.url"),
            (json!({"url": "https://example.com/\u{0}"}), "webhook.url"),
            (json!({"url": "https://xn--a"}), "webhook.url"),
            (json!({"url": "https://a.a*"}), "webhook.url"),
            (json!({"url": "ftp://example.com"}), "webhook.url"),
            (json!({"url": "javascript:alert(1)"}), "webhook.url"),
            (json!({"url": format!("https://example.com/{}", "x".repeat(2048))}), "webhook.url"),
            (json!({"url": url, "events": "task.failed"}), "webhook.events"),
            (json!({"url": url, "events": []}), "webhook.events"),
            (json!({"url": url, "events": [1]}), "webhook.events[0]"),
            (json!({"url": url, "events": ["failed"]}), "webhook.events[0]"),
            (json!({"url": url, "events": ["task.failed", "task.spawned"]}), "webhook.events[1]"),
            (json!({"url": url, "events": ["task.failed", "task.failed"]}), "webhook.events[1]"),
            (json!({"url": url, "secret": "x"}), "webhook.secret"),
        ] {
            let refusal = Webhook::read("webhook", &value).unwrap_err();
            assert_eq!(refusal.code, crate::ErrorCode::InvalidArgument, "{value}");
            assert!(refusal.message.starts_with(&format!("{field}: ")), "{value}: {refusal}");
        }
    }

    #[test]
    fn only_public_addresses_over_tls_are_told_unless_the_operator_says_otherwise() {
        let check = |url: &str, reach| {
            let webhook = Webhook { url: url.to_owned(), events: WebhookEvent::ALL.to_vec() };
            webhook.check("tasks[1].webhook", reach).map_err(|refusal| refusal.message)
        };
        for url in ["https://example.com/a", "https://1.1.1.1:8443/", "https://localhost/"] {
            assert_eq!(check(url, NetworkPolicy::Public), Ok(()), "{url}");
        }
        for url in [
            "http://example.com/",
            "https://127.0.0.1/",
            "https://0x7f.1/",
            "https://[::1]/",
            "https://169.254.169.254/latest",
            "https://10.1.2.3/",
            "https://user:secret@example.com/",
        ] {
            let said = check(url, NetworkPolicy::Public).unwrap_err();
            assert!(said.starts_with("tasks[1].webhook.url: "), "{url}: {said}");
        }
        for url in ["http://127.0.0.1:9000/", "https://10.1.2.3/", "http://hooks.internal/"] {
            assert_eq!(check(url, NetworkPolicy::Anywhere), Ok(()), "{url}");
        }
        assert!(check("http://user@127.0.0.1/", NetworkPolicy::Anywhere).is_err());
    }
}
