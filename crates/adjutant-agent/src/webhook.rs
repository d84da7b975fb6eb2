//! Webhooks: the URL and the events that a client registers.

mod retry;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;

pub use retry::{DeliveryDecision, PostResult, RetryPolicy};

use crate::fields::{Fields, text_in};
use crate::word_enum::{word_enum, word_schema};
use crate::{NetworkPolicy, Refusal, TaskState};

word_enum! {
    /// The kind of a webhook event.
    WebhookEvent {
        Completed = "task.completed",
        Failed = "task.failed",
        Cancelled = "task.cancelled",
    }
}

word_schema!(WebhookEvent);

word_enum! {
    /// Whether a webhook has received the end of a task.
    DeliveryState {
        Pending = "pending",
        Delivered = "delivered",
        Failed = "failed",
    }
}

word_schema!(DeliveryState);

impl WebhookEvent {
    /// The event of a task that entered this state; none if the state is not terminal.
    pub fn of(state: TaskState) -> Option<Self> {
        match state {
            TaskState::Completed => Some(Self::Completed),
            TaskState::Failed => Some(Self::Failed),
            TaskState::Cancelled => Some(Self::Cancelled),
            TaskState::Queued | TaskState::Running | TaskState::Waiting => None,
        }
    }
}

/// A URL that receives the ends of tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = TaskWebhook)]
pub struct Webhook {
    pub url: String,
    /// At least one, without duplicates.
    pub events: Vec<WebhookEvent>,
}

impl Webhook {
    pub const MAX_URL_CHARS: usize = 2048;

    /// Parses `{url, events?}`. A refusal names the invalid field with `field` as its prefix, such
    /// as `webhook.url`.
    pub fn parse(field: &str, value: &Value) -> Result<Self, Refusal> {
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
        parse_url(&named("url"), url)?;
        let events = match fields.take("events") {
            Some(events) => parse_events(&named("events"), events)?,
            None => WebhookEvent::ALL.to_vec(),
        };
        fields.end().map_err(|refusal| Refusal::new(refusal.code, named(&refusal.message)))?;
        Ok(Self { url: url.to_owned(), events })
    }

    /// Refuses a URL that the network policy forbids. The addresses of a host name are checked when
    /// the delivery is sent.
    pub fn check(&self, field: &str, policy: NetworkPolicy) -> Result<(), Refusal> {
        let field = format!("{field}.url");
        let url = parse_url(&field, &self.url)?;
        if policy == NetworkPolicy::Public && url.scheme() != "https" {
            return Err(Refusal::invalid(&field, "must begin with https://"));
        }
        policy.check(&url).map_err(|why| Refusal::invalid(&field, why))
    }
}

fn parse_url(field: &str, url: &str) -> Result<Url, Refusal> {
    let wrong =
        |why: &dyn std::fmt::Display| Refusal::invalid(field, format_args!("is not a URL: {why}"));
    // The URL parser removes these silently.
    if url.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(wrong(&"it contains white space or control characters"));
    }
    let parsed = Url::parse(url).map_err(|error| wrong(&error))?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(Refusal::invalid(field, "must begin with https://"));
    }
    // The URL parser accepts more characters in a host name than resolvers do.
    let is_name = |name: &str| {
        name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
    };
    if parsed.domain().is_some_and(|name| !is_name(name)) {
        return Err(wrong(&"its host is not a valid name"));
    }
    Ok(parsed)
}

fn parse_events(field: &str, value: &Value) -> Result<Vec<WebhookEvent>, Refusal> {
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
            Webhook::parse("webhook", &json!({"url": "https://example.com/a?b=c", "events": null}));
        let read = read.unwrap();
        assert_eq!(
            (read.url.as_str(), read.events.as_slice()),
            ("https://example.com/a?b=c", WebhookEvent::ALL)
        );
        let some = json!({"url": "https://example.com", "events": ["task.failed"], "colour": null});
        assert_eq!(Webhook::parse("webhook", &some).unwrap().events, [WebhookEvent::Failed]);
        let longest = format!("https://example.com/{}", "é".repeat(Webhook::MAX_URL_CHARS - 20));
        Webhook::parse("webhook", &json!({"url": longest})).unwrap();
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
            let refusal = Webhook::parse("webhook", &value).unwrap_err();
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
