//! An answer as what happens on the connection, one act after the other.

use std::time::{Duration, SystemTime};

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::Value;

use crate::answer::{Answer, ErrorText, Fault, Headers, Pace};
use crate::asked::{Asked, Wire};
use crate::record::End;
use crate::said::Said;
use crate::{anthropic, openai};

/// No more than this is known of an answer while it is under way.
pub(crate) struct Play {
    /// Before the headers.
    pub(crate) delay: Duration,
    /// There are no headers.
    pub(crate) broken: Option<Break>,
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<Act>,
    /// If the client stays for all of it.
    pub(crate) end: End,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Send(String),
    Wait(Duration),
    Break(Break),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Break {
    /// Closes the connection.
    Cut,
    /// Until the client goes away.
    Hang,
}

/// A body in pieces, and whether they are the events of a stream.
struct Body {
    pieces: Vec<String>,
    streams: bool,
}

impl Play {
    pub(crate) fn new(answer: &Answer, asked: &Asked, request_id: &str) -> Self {
        let status = match (answer.status, answer.fault) {
            (Some(status), _) => Some(status),
            (None, Some(Fault::ErrorHalfway)) if !asked.streams => Some(overloaded(asked.wire)),
            (None, _) => None,
        };
        let body = match status {
            Some(status) => Body::whole(error_body(asked.wire, status, &answer.error, request_id)),
            None => Body::of_reply(answer, asked),
        };
        let mut headers = rate_limit_headers(&answer.headers, asked.wire);
        headers.extend(body.headers(answer.fault));
        headers.push((request_id_header(asked.wire).to_owned(), request_id.to_owned()));
        let broken = match answer.fault {
            Some(Fault::DropBeforeHeaders) => Some(Break::Cut),
            Some(Fault::HangBeforeHeaders) => Some(Break::Hang),
            _ => None,
        };
        Self {
            delay: answer.pace.delay,
            broken,
            status: status.unwrap_or(200),
            headers,
            body: body.acts(&answer.pace, answer.fault, asked.wire, &answer.error),
            end: if status.is_none() && answer.fault.is_none() {
                End::Answered
            } else {
                End::Failed
            },
        }
    }

    /// A plain error, in the vendor's form.
    pub(crate) fn error(wire: Option<Wire>, status: u16, message: &str, request_id: &str) -> Self {
        let text = ErrorText { message: Some(message.to_owned()), ..ErrorText::default() };
        let body = Body::whole(error_body(wire.unwrap_or(Wire::OpenAi), status, &text, request_id));
        Self {
            delay: Duration::ZERO,
            broken: None,
            status,
            headers: body.headers(None),
            body: body.pieces.into_iter().map(Act::Send).collect(),
            end: End::Failed,
        }
    }
}

impl Body {
    /// In two halves.
    fn whole(text: String) -> Self {
        let mut half = text.len() / 2;
        while !text.is_char_boundary(half) {
            half += 1;
        }
        let (first, second) = text.split_at(half);
        Self { pieces: vec![first.to_owned(), second.to_owned()], streams: false }
    }

    fn of_reply(answer: &Answer, asked: &Asked) -> Self {
        let said = Said::new(&answer.reply, asked, answer.pace.chunk_chars);
        match (asked.wire, asked.streams) {
            (Wire::OpenAi, false) => Self::whole(openai::body(&said)),
            (Wire::Anthropic, false) => Self::whole(anthropic::body(&said)),
            (Wire::OpenAi, true) => Self { pieces: openai::events(&said), streams: true },
            (Wire::Anthropic, true) => Self { pieces: anthropic::events(&said), streams: true },
        }
    }

    /// A body that is cut off says how long it should have been.
    fn headers(&self, fault: Option<Fault>) -> Vec<(String, String)> {
        let header = |name: &str, value: String| (name.to_owned(), value);
        if self.streams {
            return vec![
                header("content-type", "text/event-stream; charset=utf-8".to_owned()),
                header("cache-control", "no-cache".to_owned()),
            ];
        }
        let length = match fault {
            Some(Fault::EndHalfway | Fault::HalfJson) => self.pieces[0].len(),
            Some(Fault::MalformedJson) => MALFORMED_BODY.len(),
            _ => self.pieces.iter().map(String::len).sum(),
        };
        vec![
            header("content-type", "application/json".to_owned()),
            header("content-length", length.to_string()),
        ]
    }

    fn acts(self, pace: &Pace, fault: Option<Fault>, wire: Wire, error: &ErrorText) -> Vec<Act> {
        if fault == Some(Fault::MalformedJson) && !self.streams {
            return vec![Act::Send(MALFORMED_BODY.to_owned())];
        }
        let half = self.pieces.len().div_ceil(2);
        let mut pieces = self.pieces.into_iter();
        let mut acts = Vec::new();
        let send = |acts: &mut Vec<Act>, piece: String| {
            if !acts.is_empty() {
                acts.extend(wait(pace.chunk_delay));
            }
            acts.push(Act::Send(piece));
        };
        for piece in pieces.by_ref().take(half) {
            send(&mut acts, piece);
        }
        acts.extend(wait(pace.pause));
        let malformed = match wire {
            Wire::OpenAi => openai::MALFORMED_EVENT,
            Wire::Anthropic => anthropic::MALFORMED_EVENT,
        };
        match fault {
            Some(Fault::DropHalfway) => acts.push(Act::Break(Break::Cut)),
            Some(Fault::HangHalfway) => acts.push(Act::Break(Break::Hang)),
            Some(Fault::EndHalfway) => {}
            Some(Fault::HalfJson) if !self.streams => {}
            Some(Fault::HalfJson) => acts.extend(pieces.next().map(half_of).map(Act::Send)),
            Some(Fault::ErrorHalfway) if self.streams => {
                acts.push(Act::Send(error_event(wire, error)))
            }
            Some(Fault::MalformedJson) => {
                send(&mut acts, malformed.to_owned());
                pieces.for_each(|piece| send(&mut acts, piece));
            }
            Some(Fault::ErrorHalfway | Fault::DropBeforeHeaders | Fault::HangBeforeHeaders)
            | None => {
                pieces.for_each(|piece| send(&mut acts, piece));
            }
        }
        acts
    }
}

const MALFORMED_BODY: &str = "{\"id\": \"malformed\", \"choices\": [}, \"content\": [}}";

fn half_of(mut event: String) -> String {
    let mut half = event.len() / 2;
    while !event.is_char_boundary(half) {
        half -= 1;
    }
    event.truncate(half);
    event
}

fn wait(duration: Duration) -> impl Iterator<Item = Act> {
    (!duration.is_zero()).then_some(Act::Wait(duration)).into_iter()
}

fn overloaded(wire: Wire) -> u16 {
    match wire {
        Wire::OpenAi => 503,
        Wire::Anthropic => 529,
    }
}

fn request_id_header(wire: Wire) -> &'static str {
    match wire {
        Wire::OpenAi => "x-request-id",
        Wire::Anthropic => "request-id",
    }
}

fn error_body(wire: Wire, status: u16, error: &ErrorText, request_id: &str) -> String {
    if let Some(body) = &error.body {
        return body.clone();
    }
    let message =
        error.message.clone().unwrap_or_else(|| format!("Status {status}, as the script says."));
    let body: Value = match wire {
        Wire::OpenAi => openai::error(status, error.kind.as_deref(), &message),
        Wire::Anthropic => anthropic::error(status, error.kind.as_deref(), &message, request_id),
    };
    body.to_string()
}

fn error_event(wire: Wire, error: &ErrorText) -> String {
    let message = error.message.as_deref().unwrap_or("An error in the middle, as the script says.");
    match wire {
        Wire::OpenAi => openai::error_event(error.kind.as_deref(), message),
        Wire::Anthropic => anthropic::error_event(error.kind.as_deref(), message),
    }
}

fn rate_limit_headers(headers: &Headers, wire: Wire) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, value: String| all.push((name.to_owned(), value));
    if let Some(seconds) = headers.retry_after_s {
        add("retry-after", seconds.to_string());
    }
    if let Some(seconds) = headers.retry_after_date_s {
        add("retry-after", in_seconds(seconds).format("%a, %d %b %Y %H:%M:%S GMT").to_string());
    }
    if let Some(seconds) = headers.reset_after_s {
        match wire {
            Wire::OpenAi => {
                add("x-ratelimit-limit-requests", "100".to_owned());
                add("x-ratelimit-remaining-requests", "0".to_owned());
                add("x-ratelimit-reset-requests", format!("{seconds}s"));
            }
            Wire::Anthropic => {
                let reset = in_seconds(seconds).to_rfc3339_opts(SecondsFormat::Secs, true);
                add("anthropic-ratelimit-requests-limit", "100".to_owned());
                add("anthropic-ratelimit-requests-remaining", "0".to_owned());
                add("anthropic-ratelimit-requests-reset", reset);
            }
        }
    }
    all.extend(headers.others.clone());
    all
}

/// Rounded up, since dates on the wire have no fractions and a client must not come back early.
fn in_seconds(seconds: f64) -> DateTime<Utc> {
    let whole = Duration::try_from_secs_f64(seconds.ceil()).unwrap_or_default();
    DateTime::from(SystemTime::now() + whole + Duration::from_millis(999))
}
