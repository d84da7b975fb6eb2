use std::time::Duration;

use reqwest::Response;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use super::draft::Draft;
use super::reading::Reading;
use super::{CallError, Model, Secret, Wire, error};

/// The most that is read of what a server says of an error.
const LARGEST_ERROR: usize = 64 << 10;
/// How long an answer that is complete is waited for to end, so that its connection can be used again.
const LAST_BYTES: Duration = Duration::from_millis(100);

impl Model {
    /// Sends a body, and reads the answer as it comes.
    pub(super) async fn exchange(
        &self,
        key: Option<&Secret>,
        body: String,
        mut deltas: impl FnMut(&str),
    ) -> Result<Draft, CallError> {
        let request = self.client.post(self.url.clone()).headers(self.headers_with(key)?).body(body);
        let mut response = self.within_idle_time(request.send()).await??;
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        let mut reading = Reading::new(self.wire);
        while let Some(bytes) = self.within_idle_time(response.chunk()).await?? {
            reading.feed(&bytes, &mut deltas)?;
            if reading.is_complete() {
                let _ = tokio::time::timeout(LAST_BYTES, drain(response)).await;
                break;
            }
        }
        reading.end(&mut deltas)
    }

    fn headers_with(&self, key: Option<&Secret>) -> Result<HeaderMap, CallError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let name = match self.wire {
            Wire::Anthropic => {
                headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
                HeaderName::from_static("x-api-key")
            }
            Wire::OpenAi => AUTHORIZATION,
        };
        if let Some(key) = key {
            let value = match self.wire {
                Wire::Anthropic => key.expose().to_owned(),
                Wire::OpenAi => format!("Bearer {}", key.expose()),
            };
            // Its file may have changed to anything.
            let mut value =
                HeaderValue::try_from(value).map_err(|_| CallError::passing("the API key is not one"))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        headers.extend(self.headers.clone());
        Ok(headers)
    }

    async fn refused(&self, mut response: Response) -> CallError {
        let mut body = Vec::new();
        // Without its end it is still an error of that status.
        while let Ok(Ok(Some(bytes))) = self.within_idle_time(response.chunk()).await {
            body.extend_from_slice(&bytes);
            if body.len() > LARGEST_ERROR {
                break;
            }
        }
        error::refused(response.status(), response.headers(), &body)
    }

    async fn within_idle_time<T>(&self, step: impl Future<Output = T>) -> Result<T, CallError> {
        tokio::time::timeout(self.idle_timeout, step)
            .await
            .map_err(|_| CallError::passing(format!("nothing came for {:?}", self.idle_timeout)))
    }
}

async fn drain(mut response: Response) {
    while let Ok(Some(_)) = response.chunk().await {}
}
