//! The OpenAI Chat Completions API, which many other servers speak too.

mod request;
mod response;

use adjutant_agent::{Request, ToolDefinition};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, InvalidHeaderValue};
use serde_json::Value;

use super::WireFormat;
use crate::model::parameters::Parameters;
use crate::model::partial_answer::PartialAnswer;
use crate::model::{CallError, Secret, TokenLimit};

pub(super) struct OpenAi;

impl WireFormat for OpenAi {
    fn default_base_url(&self) -> &'static str {
        "https://api.openai.com/v1"
    }

    fn path(&self) -> &'static str {
        "chat/completions"
    }

    fn headers(&self, key: Option<&Secret>) -> Result<HeaderMap, InvalidHeaderValue> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(key) = key {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose()))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(headers)
    }

    /// Newer models of OpenAI refuse `max_tokens`; many other servers know nothing else.
    fn token_limit(&self, configured: Option<TokenLimit>, host: &str) -> TokenLimit {
        let is_openai = host == "api.openai.com" || host.ends_with(".openai.azure.com");
        configured.unwrap_or(if is_openai {
            TokenLimit::MaxCompletionTokens
        } else {
            TokenLimit::MaxTokens
        })
    }

    fn request_body(
        &self,
        parameters: &Parameters,
        request: &Request<'_>,
        tools: &[ToolDefinition],
    ) -> Value {
        request::body(parameters, request, tools)
    }

    fn add_event(
        &self,
        answer: &mut PartialAnswer,
        event: &Value,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<(), CallError> {
        response::add_event(answer, event, on_text)
    }

    fn add_whole(
        &self,
        answer: &mut PartialAnswer,
        response: &Value,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<(), CallError> {
        response::add_whole(answer, response, on_text)
    }

    /// A stream ends with a `finish_reason` and with `[DONE]`, and some servers send only one.
    fn is_complete(&self, answer: &PartialAnswer) -> bool {
        answer.finished || answer.stop.is_some()
    }
}
