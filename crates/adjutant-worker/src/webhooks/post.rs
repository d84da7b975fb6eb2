//! One attempt of a delivery: a POST, of whose response only the status counts.

use std::time::{Duration, SystemTime};

use adjutant_agent::{Answered, NetworkPolicy, NotPublic};
use adjutant_store::{Delivery, DeliveryResponse};
use chrono::Utc;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Client, Response, Url};

use super::{WebhookSettings, payload, sign};
use crate::tools::http_client::{Body, HttpClients, describe};

/// The most bytes of a response body that are read, so that the connection can be reused. The body is
/// discarded.
const MAX_BODY: usize = 16 << 10;

const NO_SECRET: &str = "There is no secret to sign the payload with.";

/// Sends deliveries. It follows no redirects, and connects only to public addresses unless the
/// operator allows others.
pub(super) struct WebhookSender {
    pub(super) settings: WebhookSettings,
    client: Client,
}

impl WebhookSender {
    pub(super) fn new(settings: WebhookSettings) -> Result<Self, reqwest::Error> {
        Ok(Self { settings, client: HttpClients::new()?.client(settings.network).clone() })
    }

    /// The result of the attempt, for the retry decision and for the history.
    pub(super) async fn post(&self, delivery: &Delivery) -> (Answered, DeliveryResponse) {
        let failed = |answered, error: String| {
            (answered, DeliveryResponse { status: None, error: Some(error) })
        };
        if delivery.secrets.is_empty() {
            return failed(Answered::Nothing, NO_SECRET.to_owned());
        }
        let url = match self.checked(&delivery.url) {
            Ok(url) => url,
            Err(error) => return failed(Answered::OutOfReach, error),
        };
        let sending = self.send(url, delivery);
        match tokio::time::timeout(self.settings.timeout, sending).await {
            Err(_) => {
                let seconds = self.settings.timeout.as_secs_f64();
                failed(Answered::Nothing, format!("No answer within {seconds} s."))
            }
            Ok(Err(error)) if is_not_public(&error) => {
                failed(Answered::OutOfReach, describe(error))
            }
            Ok(Err(error)) => failed(Answered::Nothing, describe(error)),
            Ok(Ok(response)) => read(response).await,
        }
    }

    /// The URL was checked when it was set, but the operator may have changed the policy since.
    fn checked(&self, url: &str) -> Result<Url, String> {
        let url = Url::parse(url).map_err(|error| format!("This is not a URL: {error}."))?;
        if self.settings.network == NetworkPolicy::Public && url.scheme() != "https" {
            return Err("Webhooks are sent to https URLs only.".to_owned());
        }
        self.settings.network.check(&url)?;
        Ok(url)
    }

    async fn send(&self, url: Url, delivery: &Delivery) -> Result<Response, reqwest::Error> {
        let (id, timestamp) = (delivery.id.to_string(), Utc::now().timestamp());
        let body = payload::body(delivery);
        let signatures = sign::signatures(&delivery.secrets, &id, timestamp, &body);
        self.client
            .post(url)
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", timestamp)
            .header("webhook-signature", signatures)
            .body(body)
            .send()
            .await
    }
}

async fn read(mut response: Response) -> (Answered, DeliveryResponse) {
    let status = response.status();
    let after = retry_after(response.headers());
    let error = if status.is_success() {
        None
    } else if status.is_redirection() {
        Some("The receiver answered with a redirect, which is not followed.".to_owned())
    } else {
        Some(format!("The receiver answered {}.", status.as_u16()))
    };
    // The status is known, so an error while reading the body does not matter.
    let _ = tokio::time::timeout(Duration::from_secs(1), Body::read(&mut response, MAX_BODY)).await;
    (
        Answered::Status(status.as_u16(), after),
        DeliveryResponse { status: Some(status.as_u16()), error },
    )
}

/// The header is a number of seconds or a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    match text.parse::<u64>() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::now()).ok(),
    }
}

fn is_not_public(error: &reqwest::Error) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        if inner.is::<NotPublic>() {
            return true;
        }
        cause = inner.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    #[test]
    fn retry_after_is_a_number_of_seconds_or_a_date() {
        let after = |text: &str| {
            retry_after(&HeaderMap::from_iter([(
                RETRY_AFTER,
                HeaderValue::from_str(text).unwrap(),
            )]))
        };
        assert_eq!(after("120"), Some(Duration::from_secs(120)));
        let soon = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(100));
        assert!(after(&soon).is_some_and(|after| (98..=100).contains(&after.as_secs())));
        for nothing in ["", "-1", "1.5", "soon", "Sun, 06 Nov 1994 08:49:37 GMT"] {
            assert_eq!(after(nothing), None, "{nothing}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }
}
