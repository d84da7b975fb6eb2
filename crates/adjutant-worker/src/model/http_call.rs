//! One HTTP call to a model server: sends the request and reads the response as it arrives.

use std::time::Duration;

use reqwest::Response;
use reqwest::header::HeaderMap;

use super::partial_answer::PartialAnswer;
use super::response::ResponseParser;
use super::{CallError, CallMeter, Model, Secret, error};

/// The most bytes of an error response that are read.
const MAX_ERROR_BYTES: usize = 64 << 10;
/// How long to wait for the end of the body after a complete answer, so that the connection can be
/// reused.
const LAST_BYTES: Duration = Duration::from_millis(100);

impl Model {
    pub(super) async fn send(
        &self,
        key: Option<&Secret>,
        body: String,
        meter: &CallMeter,
        on_headers: impl FnOnce(&HeaderMap),
        mut on_text: impl FnMut(&str),
    ) -> Result<PartialAnswer, CallError> {
        let request =
            self.client.post(self.url.clone()).headers(self.request_headers(key)?).body(body);
        let sent = self.within_idle_time(request.send()).await?;
        if sent.as_ref().is_err_and(|error| error.is_connect() || error.is_builder()) {
            meter.refused();
        }
        let mut response = sent?;
        if !response.status().is_success() {
            meter.refused();
            return Err(self.read_error(response).await);
        }
        on_headers(response.headers());
        let mut parser = ResponseParser::new(self.wire);
        while let Some(bytes) = self.within_idle_time(response.chunk()).await?? {
            let fed = parser.feed(&bytes, &mut on_text);
            meter.received(parser.answer());
            if fed.is_err() && !parser.answer().started {
                meter.refused();
            }
            fed?;
            if parser.is_finished() {
                let _ = tokio::time::timeout(LAST_BYTES, drain(response)).await;
                break;
            }
        }
        parser.end(&mut on_text)
    }

    fn request_headers(&self, key: Option<&Secret>) -> Result<HeaderMap, CallError> {
        // The key's file may have changed since it was checked.
        let mut headers = self
            .wire
            .format()
            .headers(key)
            .map_err(|_| CallError::transient("the API key has characters that no key has"))?;
        headers.extend(self.headers.clone());
        Ok(headers)
    }

    async fn read_error(&self, mut response: Response) -> CallError {
        let mut body = Vec::new();
        // If reading fails, the status alone makes the error.
        while let Ok(Ok(Some(bytes))) = self.within_idle_time(response.chunk()).await {
            body.extend_from_slice(&bytes);
            if body.len() > MAX_ERROR_BYTES {
                break;
            }
        }
        error::from_status(response.status(), response.headers(), &body)
    }

    async fn within_idle_time<T>(&self, step: impl Future<Output = T>) -> Result<T, CallError> {
        tokio::time::timeout(self.idle_timeout, step).await.map_err(|_| {
            CallError::transient(format!("the server sent nothing for {:?}", self.idle_timeout))
        })
    }
}

async fn drain(mut response: Response) {
    while let Ok(Some(_)) = response.chunk().await {}
}
