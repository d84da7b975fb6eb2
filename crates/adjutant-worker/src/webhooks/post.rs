//! One try of a delivery: a POST whose answer is a status and nothing more.

use std::time::{Duration, SystemTime};

use adjutant_agent::{Answered, NotPublic, Reach};
use adjutant_store::{Delivery, Seen};
use chrono::Utc;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Client, Response, Url};

use super::{WebhookSettings, payload, sign};
use crate::tools::web::{Body, Web, why};

/// What is read of an answer, so that its connection can be used again; none of it is kept.
const READ_AWAY: usize = 16 << 10;

const NO_SECRET: &str = "There is no secret to sign it with.";

/// Sends deliveries. It follows no redirect, and connects to no address that is not public unless the operator lets it.
pub(super) struct Postman {
    pub(super) settings: WebhookSettings,
    client: Client,
}

impl Postman {
    pub(super) fn new(settings: WebhookSettings) -> Result<Self, reqwest::Error> {
        Ok(Self { settings, client: Web::new()?.client(settings.reach).clone() })
    }

    /// What came of it, for the verdict and for the history.
    pub(super) async fn post(&self, delivery: &Delivery) -> (Answered, Seen) {
        let failed = |answered, error: String| (answered, Seen { status: None, error: Some(error) });
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
            Ok(Err(error)) if is_out_of_reach(&error) => failed(Answered::OutOfReach, why(error)),
            Ok(Err(error)) => failed(Answered::Nothing, why(error)),
            Ok(Ok(response)) => read(response).await,
        }
    }

    /// It was looked at when it was given; the operator may have said otherwise since.
    fn checked(&self, url: &str) -> Result<Url, String> {
        let url = Url::parse(url).map_err(|error| format!("This is not a URL: {error}."))?;
        if self.settings.reach == Reach::Public && url.scheme() != "https" {
            return Err("Only https URLs are told anything.".to_owned());
        }
        self.settings.reach.check(&url)?;
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

async fn read(mut response: Response) -> (Answered, Seen) {
    let status = response.status();
    let after = retry_after(response.headers());
    let error = if status.is_success() {
        None
    } else if status.is_redirection() {
        Some("It answered with a redirect, which is not followed.".to_owned())
    } else {
        Some(format!("It answered {}.", status.as_u16()))
    };
    // The status has been said: what follows does not change it.
    let _ = tokio::time::timeout(Duration::from_secs(1), Body::read(&mut response, READ_AWAY)).await;
    (Answered::Status(status.as_u16(), after), Seen { status: Some(status.as_u16()), error })
}

/// Seconds, or a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    match text.parse::<u64>() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::now()).ok(),
    }
}

fn is_out_of_reach(error: &reqwest::Error) -> bool {
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
    fn a_receiver_says_when_to_come_again_in_seconds_or_by_a_date() {
        let after = |text: &str| {
            retry_after(&HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_str(text).unwrap())]))
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
