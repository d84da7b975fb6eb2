//! The Anthropic Messages API.

mod request;
mod response;

use adjutant_agent::{Request, ToolDefinition};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue, InvalidHeaderValue};
use serde_json::Value;

use super::WireFormat;
use crate::model::parameters::Parameters;
use crate::model::partial_answer::{Content, PartialAnswer};
use crate::model::{CallError, Secret, TokenLimit};

pub(super) struct Anthropic;

impl WireFormat for Anthropic {
    fn default_base_url(&self) -> &'static str {
        "https://api.anthropic.com"
    }

    fn path(&self) -> &'static str {
        "v1/messages"
    }

    fn headers(&self, key: Option<&Secret>) -> Result<HeaderMap, InvalidHeaderValue> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        if let Some(key) = key {
            let mut value = HeaderValue::from_str(key.expose())?;
            value.set_sensitive(true);
            headers.insert("x-api-key", value);
        }
        Ok(headers)
    }

    /// The most that all current models of the vendor accept.
    fn default_max_tokens(&self) -> Option<u32> {
        Some(32_000)
    }

    fn token_limit(&self, _: Option<TokenLimit>, _: &str) -> TokenLimit {
        TokenLimit::MaxTokens
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

    /// Thinking that was cut off before its signature is rejected when it is sent back.
    fn clean_up(&self, answer: &mut PartialAnswer) {
        answer.parts.retain(|part| match &part.content {
            Content::Opaque { value, .. } => {
                let is_signed = value["signature"].as_str().is_some_and(|text| !text.is_empty());
                value["type"] != "thinking" || is_signed
            }
            Content::Text(_) | Content::ToolCall(_) => true,
        });
    }
}
