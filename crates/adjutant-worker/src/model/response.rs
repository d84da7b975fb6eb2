//! Parses the body of a response as its bytes arrive.

use serde_json::Value;

use super::partial_answer::PartialAnswer;
use super::sse::SseParser;
use super::{CallError, Wire};

/// The largest response that is accepted in one piece.
const MAX_BYTES: usize = 16 << 20;

/// Accepts streamed and whole responses: some servers ignore `stream` in the request.
#[derive(Debug)]
pub(super) struct ResponseParser {
    wire: Wire,
    body: Body,
    answer: PartialAnswer,
}

#[derive(Debug)]
enum Body {
    Unknown,
    Json(Vec<u8>),
    Stream(SseParser),
}

impl ResponseParser {
    pub(super) fn new(wire: Wire) -> Self {
        Self { wire, body: Body::Unknown, answer: PartialAnswer::default() }
    }

    /// Whether the answer is complete, so that the rest of the body does not matter.
    pub(super) fn is_finished(&self) -> bool {
        self.answer.finished
    }

    /// What has arrived so far.
    pub(super) fn answer(&self) -> &PartialAnswer {
        &self.answer
    }

    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        on_text: &mut dyn FnMut(&str),
    ) -> Result<(), CallError> {
        let events = match &mut self.body {
            Body::Unknown => {
                self.body = match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
                    None => return Ok(()),
                    Some(b'{' | b'[') => Body::Json(Vec::new()),
                    Some(b'<') => {
                        return Err(CallError::permanent(
                            "the answer is a web page; is base_url right?",
                        ));
                    }
                    Some(_) => Body::Stream(SseParser::default()),
                };
                return self.feed(bytes, on_text);
            }
            Body::Json(body) if body.len() + bytes.len() > MAX_BYTES => {
                return Err(CallError::permanent(format!(
                    "the answer is longer than {} MiB",
                    MAX_BYTES >> 20
                )));
            }
            Body::Json(body) => {
                body.extend_from_slice(bytes);
                return Ok(());
            }
            Body::Stream(parser) => parser
                .feed(bytes)
                .map_err(|_| CallError::permanent("an event of the stream is too long"))?,
        };
        events.iter().try_for_each(|data| self.add_event(data, on_text))
    }

    /// The answer, or an error if the body ended too early.
    pub(super) fn end(mut self, on_text: &mut dyn FnMut(&str)) -> Result<PartialAnswer, CallError> {
        match std::mem::replace(&mut self.body, Body::Unknown) {
            Body::Unknown => {}
            Body::Json(body) => self.add_whole(&body, on_text)?,
            Body::Stream(parser) => {
                // An event that was cut off is not JSON.
                let last = parser.end().filter(|data| is_done(data) || is_json(data));
                last.map_or(Ok(()), |data| self.add_event(&data, on_text))?;
            }
        }
        let wire = self.wire.format();
        if !self.answer.started || !wire.is_complete(&self.answer) {
            return Err(CallError::transient("the stream ended before the answer did"));
        }
        wire.clean_up(&mut self.answer);
        Ok(self.answer)
    }

    fn add_event(&mut self, data: &[u8], on_text: &mut dyn FnMut(&str)) -> Result<(), CallError> {
        if self.answer.finished {
            return Ok(());
        }
        if is_done(data) {
            self.answer.finished = true;
            return Ok(());
        }
        if data.trim_ascii().is_empty() {
            return Ok(());
        }
        let event: Value = serde_json::from_slice(data)
            .map_err(|_| CallError::transient("an event of the stream is not JSON"))?;
        self.wire.format().add_event(&mut self.answer, &event, on_text)
    }

    fn add_whole(&mut self, body: &[u8], on_text: &mut dyn FnMut(&str)) -> Result<(), CallError> {
        let response: Value = serde_json::from_slice(body)
            .map_err(|_| CallError::transient("the answer is not JSON"))?;
        self.wire.format().add_whole(&mut self.answer, &response, on_text)?;
        self.answer.started = true;
        Ok(())
    }
}

fn is_done(data: &[u8]) -> bool {
    data.trim_ascii() == b"[DONE]"
}

fn is_json(data: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(data).is_ok()
}
