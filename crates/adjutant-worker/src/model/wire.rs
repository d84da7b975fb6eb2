//! The wire formats that model servers speak.
//!
//! To add one: write its module below this folder, declare it here, and add its variant to [`Wire`]
//! and to [`Wire::format`]. Everything else is generic over [`WireFormat`], and the config file
//! takes the word from [`Wire::WORDS`].

mod anthropic;
mod openai;
mod unknown_fields;

use adjutant_agent::{Arguments, Request, ToolDefinition};
use reqwest::header::{HeaderMap, InvalidHeaderValue};
use serde_json::{Value, json};

use super::parameters::Parameters;
use super::partial_answer::PartialAnswer;
use super::{CallError, Secret, TokenLimit};

adjutant_agent::word_enum! {
    /// The wire format of a model's server, by its word in the config, in traces and in stored
    /// answers.
    Wire {
        OpenAi = "openai",
        Anthropic = "anthropic",
    }
}

impl Wire {
    pub(super) fn format(self) -> &'static dyn WireFormat {
        match self {
            Self::Anthropic => &anthropic::Anthropic,
            Self::OpenAi => &openai::OpenAi,
        }
    }
}

/// How requests and responses of one wire look.
pub(super) trait WireFormat: Sync {
    /// The base URL of the vendor, for models without a `base_url`.
    fn default_base_url(&self) -> &'static str;

    /// The path of the endpoint below the base URL.
    fn path(&self) -> &'static str;

    /// The headers of every request, with the API key if there is one.
    fn headers(&self, key: Option<&Secret>) -> Result<HeaderMap, InvalidHeaderValue>;

    /// The limit of an answer in tokens for models without one. Only for a wire that requires it:
    /// reasoning counts into it, so a small limit ends answers before they begin.
    fn default_max_tokens(&self) -> Option<u32> {
        None
    }

    /// The parameter that limits the length of an answer, for a server on this host.
    fn token_limit(&self, configured: Option<TokenLimit>, host: &str) -> TokenLimit;

    fn request_body(
        &self,
        parameters: &Parameters,
        request: &Request<'_>,
        tools: &[ToolDefinition],
    ) -> Value;

    /// Adds one event of a streamed response. Passes new text to `on_text`.
    ///
    /// Sets `answer.started` at the first event of an answer, even if that has no content: a stream
    /// without it counts as cut off, and the call is repeated. Sets what [`Self::is_complete`]
    /// reads, by default `answer.finished`, at the event that ends the answer. Events after
    /// `answer.finished` are ignored. An error of the server is the error of the call.
    fn add_event(
        &self,
        answer: &mut PartialAnswer,
        event: &Value,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<(), CallError>;

    /// Adds a response that was not streamed. Passes its text to `on_text`.
    ///
    /// Sets what [`Self::is_complete`] reads: `answer.finished`, or `answer.stop` if the wire
    /// accepts that. The caller sets `answer.started`.
    fn add_whole(
        &self,
        answer: &mut PartialAnswer,
        response: &Value,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<(), CallError>;

    /// Whether a response that ended here is complete.
    fn is_complete(&self, answer: &PartialAnswer) -> bool {
        answer.finished
    }

    /// Removes content that the server would reject when it is sent back.
    fn clean_up(&self, _: &mut PartialAnswer) {}
}

/// The arguments of a call as an object: servers of both wires reject anything else in the
/// conversation, some of them with an error for every later request.
fn arguments_object(arguments: &Arguments) -> Value {
    match arguments {
        Arguments::Json(input) if input.is_object() => input.clone(),
        Arguments::Json(input) => json!({"malformed": input}),
        Arguments::Malformed(text) => json!({"malformed": text}),
        Arguments::CutOff(text) => json!({"cut_off": text}),
    }
}
