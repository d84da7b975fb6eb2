use serde_json::Value;

use super::draft::Draft;
use super::sse::Events;
use super::{CallError, Wire, anthropic_answer, openai_answer};

/// The most that is taken of an answer in one piece.
const LARGEST: usize = 16 << 20;

/// Reads an answer from bytes as they come, streamed or not: some servers do not do what they are asked.
#[derive(Debug)]
pub(super) struct Reading {
    wire: Wire,
    form: Form,
    draft: Draft,
}

#[derive(Debug)]
enum Form {
    Unknown,
    Whole(Vec<u8>),
    Stream(Events),
}

impl Reading {
    pub(super) fn new(wire: Wire) -> Self {
        Self { wire, form: Form::Unknown, draft: Draft::default() }
    }

    /// Whether the answer is complete, whatever may still come.
    pub(super) fn is_complete(&self) -> bool {
        self.draft.ended
    }

    pub(super) fn feed(&mut self, bytes: &[u8], deltas: &mut dyn FnMut(&str)) -> Result<(), CallError> {
        let events = match &mut self.form {
            Form::Unknown => {
                self.form = match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
                    None => return Ok(()),
                    Some(b'{' | b'[') => Form::Whole(Vec::new()),
                    Some(b'<') => {
                        return Err(CallError::fatal("the answer is a web page; is base_url right?"));
                    }
                    Some(_) => Form::Stream(Events::default()),
                };
                return self.feed(bytes, deltas);
            }
            Form::Whole(body) if body.len() + bytes.len() > LARGEST => {
                return Err(CallError::fatal(format!("an answer of more than {} MiB", LARGEST >> 20)));
            }
            Form::Whole(body) => {
                body.extend_from_slice(bytes);
                return Ok(());
            }
            Form::Stream(events) => events
                .feed(bytes)
                .map_err(|_| CallError::fatal("a stream with an event that does not end"))?,
        };
        events.iter().try_for_each(|data| self.event(data, deltas))
    }

    /// The answer, if all of it was there when the bytes ended.
    pub(super) fn end(mut self, deltas: &mut dyn FnMut(&str)) -> Result<Draft, CallError> {
        match std::mem::replace(&mut self.form, Form::Unknown) {
            Form::Unknown => {}
            Form::Whole(body) => self.whole(&body, deltas)?,
            Form::Stream(events) => {
                // Whatever was cut off is not JSON.
                let last = events.end().filter(|data| is_done(data) || is_json(data));
                last.map_or(Ok(()), |data| self.event(&data, deltas))?;
            }
        }
        // The OpenAI wire says twice that it is done, and not all of its servers do both.
        let ended = self.draft.ended || (self.wire == Wire::OpenAi && self.draft.stop.is_some());
        if !ended || !self.draft.begun {
            return Err(CallError::passing("the stream broke off"));
        }
        Ok(self.draft)
    }

    fn event(&mut self, data: &[u8], deltas: &mut dyn FnMut(&str)) -> Result<(), CallError> {
        if self.draft.ended {
            return Ok(());
        }
        if is_done(data) {
            self.draft.ended = true;
            return Ok(());
        }
        if data.trim_ascii().is_empty() {
            return Ok(());
        }
        let event: Value = serde_json::from_slice(data)
            .map_err(|_| CallError::passing("a stream with an event that is not JSON"))?;
        match self.wire {
            Wire::Anthropic => anthropic_answer::event(&mut self.draft, &event, deltas),
            Wire::OpenAi => openai_answer::event(&mut self.draft, &event, deltas),
        }
    }

    fn whole(&mut self, body: &[u8], deltas: &mut dyn FnMut(&str)) -> Result<(), CallError> {
        let answer: Value =
            serde_json::from_slice(body).map_err(|_| CallError::passing("an answer that is not JSON"))?;
        match self.wire {
            Wire::Anthropic => anthropic_answer::whole(&mut self.draft, &answer, deltas),
            Wire::OpenAi => openai_answer::whole(&mut self.draft, &answer, deltas),
        }?;
        self.draft.begun = true;
        Ok(())
    }
}

fn is_done(data: &[u8]) -> bool {
    data.trim_ascii() == b"[DONE]"
}

fn is_json(data: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(data).is_ok()
}
