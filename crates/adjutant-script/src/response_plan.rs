//! The plan of a response: what is sent on the connection, step by step.

use std::time::{Duration, SystemTime};

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::Value;

use crate::answer::{Answer, ErrorText, Fault, Headers, Pace};
use crate::filled_reply::FilledReply;
use crate::model_request::{ModelRequest, Wire};
use crate::recorded_request::End;
use crate::{anthropic, openai};

/// A response to one request.
pub(crate) struct ResponsePlan {
    /// Before the headers.
    pub(crate) delay: Duration,
    /// Replaces the whole response, headers included.
    pub(crate) broken: Option<Break>,
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<Step>,
    /// How the request ends, if the client reads all of it.
    pub(crate) end: End,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Send(String),
    Wait(Duration),
    Break(Break),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Break {
    /// Closes the connection.
    Cut,
    /// Sends nothing more until the client closes the connection.
    Hang,
}

/// A body in pieces: the events of a stream, or two halves.
struct Body {
    pieces: Vec<String>,
    streams: bool,
}

impl ResponsePlan {
    pub(crate) fn new(answer: &Answer, request: &ModelRequest, request_id: &str) -> Self {
        let status = match (answer.status, answer.fault) {
            (Some(status), _) => Some(status),
            (None, Some(Fault::ErrorHalfway)) if !request.streams => Some(overloaded(request.wire)),
            (None, _) => None,
        };
        let body = match status {
            Some(status) => {
                Body::whole(error_body(request.wire, status, &answer.error, request_id))
            }
            None => Body::of_reply(answer, request),
        };
        let mut headers = rate_limit_headers(&answer.headers, request.wire);
        headers.extend(body.headers(answer.fault));
        headers.push((request_id_header(request.wire).to_owned(), request_id.to_owned()));
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
            body: body.steps(&answer.pace, answer.fault, request.wire, &answer.error),
            end: if status.is_none() && answer.fault.is_none() {
                End::Answered
            } else {
                End::Failed
            },
        }
    }

    /// An error in the vendor's format.
    pub(crate) fn error(wire: Option<Wire>, status: u16, message: &str, request_id: &str) -> Self {
        let text = ErrorText { message: Some(message.to_owned()), ..ErrorText::default() };
        let body = Body::whole(error_body(wire.unwrap_or(Wire::OpenAi), status, &text, request_id));
        Self {
            delay: Duration::ZERO,
            broken: None,
            status,
            headers: body.headers(None),
            body: body.pieces.into_iter().map(Step::Send).collect(),
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

    fn of_reply(answer: &Answer, request: &ModelRequest) -> Self {
        let reply = FilledReply::new(&answer.reply, request, answer.pace.chunk_chars);
        match (request.wire, request.streams) {
            (Wire::OpenAi, false) => Self::whole(openai::body(&reply)),
            (Wire::Anthropic, false) => Self::whole(anthropic::body(&reply)),
            (Wire::OpenAi, true) => Self { pieces: openai::events(&reply), streams: true },
            (Wire::Anthropic, true) => Self { pieces: anthropic::events(&reply), streams: true },
        }
    }

    /// A body that is cut off has the content length of the whole body.
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

    fn steps(self, pace: &Pace, fault: Option<Fault>, wire: Wire, error: &ErrorText) -> Vec<Step> {
        if fault == Some(Fault::MalformedJson) && !self.streams {
            return vec![Step::Send(MALFORMED_BODY.to_owned())];
        }
        let half = self.pieces.len().div_ceil(2);
        let mut pieces = self.pieces.into_iter();
        let mut steps = Vec::new();
        let send = |steps: &mut Vec<Step>, piece: String| {
            if !steps.is_empty() {
                steps.extend(wait(pace.chunk_delay));
            }
            steps.push(Step::Send(piece));
        };
        for piece in pieces.by_ref().take(half) {
            send(&mut steps, piece);
        }
        steps.extend(wait(pace.pause));
        let malformed = match wire {
            Wire::OpenAi => openai::MALFORMED_EVENT,
            Wire::Anthropic => anthropic::MALFORMED_EVENT,
        };
        match fault {
            Some(Fault::DropHalfway) => steps.push(Step::Break(Break::Cut)),
            Some(Fault::HangHalfway) => steps.push(Step::Break(Break::Hang)),
            Some(Fault::EndHalfway) => {}
            Some(Fault::HalfJson) if !self.streams => {}
            Some(Fault::HalfJson) => steps.extend(pieces.next().map(half_of).map(Step::Send)),
            Some(Fault::ErrorHalfway) if self.streams => {
                steps.push(Step::Send(error_event(wire, error)))
            }
            Some(Fault::MalformedJson) => {
                send(&mut steps, malformed.to_owned());
                pieces.for_each(|piece| send(&mut steps, piece));
            }
            Some(Fault::ErrorHalfway | Fault::DropBeforeHeaders | Fault::HangBeforeHeaders)
            | None => {
                pieces.for_each(|piece| send(&mut steps, piece));
            }
        }
        steps
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

fn wait(duration: Duration) -> impl Iterator<Item = Step> {
    (!duration.is_zero()).then_some(Step::Wait(duration)).into_iter()
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

/// Rounded up: HTTP dates have no fractions, and a client must not retry early.
fn in_seconds(seconds: f64) -> DateTime<Utc> {
    let whole = Duration::try_from_secs_f64(seconds.ceil()).unwrap_or_default();
    DateTime::from(SystemTime::now() + whole + Duration::from_millis(999))
}
