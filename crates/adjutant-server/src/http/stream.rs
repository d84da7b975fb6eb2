//! One event stream: pages of stored events until there are no more, then a wait for the next.

use std::convert::Infallible;
use std::time::Duration;

use adjutant_agent::{
    Budget, BudgetLimit, BudgetScope, EventKind, FailureKind, OverBudget, Refusal, SessionId,
    TaskId, TurnKind, usd,
};
use adjutant_store::{
    Event, EventPage, EventQuery, LiveText, TextRef, timestamp, warn_unless_outage,
};
use axum::http::HeaderName;
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::json;
use tokio::sync::mpsc;

use super::events::{EventStreams, StreamPermit};
use crate::{Error, Result, TextWatch, Watch};

/// Events per query.
const PAGE: i64 = 200;

/// Events that are buffered for a client.
const BUFFERED: usize = 32;

/// A client that reads nothing for this long is disconnected; it can resume after its last event.
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);

const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How long a client waits before it reconnects; sent as `retry`.
const RECONNECT_AFTER: Duration = Duration::from_secs(1);

/// The pause between two reads from a database that is not available.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A position in a session's events. A stored event that also records a start is two events of the
/// stream, and the position may be between them: `12.0` is the start, `12` the event itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct StreamPosition {
    after: i64,
    start_was_sent: bool,
}

impl StreamPosition {
    pub(super) fn after(number: i64) -> Self {
        Self { after: number, start_was_sent: false }
    }

    pub(super) fn parse(field: &str, id: &str) -> Result<Self> {
        let number = |digits: &str| {
            let is_plain = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
            digits.parse::<i64>().ok().filter(|_| is_plain)
        };
        let position = match id.strip_suffix(".0") {
            Some(digits) => number(digits)
                .filter(|number| *number > 0)
                .map(|number| Self { after: number - 1, start_was_sent: true }),
            None => number(id).map(Self::after),
        };
        position.ok_or_else(|| Refusal::invalid(field, "must be the id of an event").into())
    }
}

/// The stream of one client.
pub(super) struct EventStream {
    pub(super) streams: EventStreams,
    pub(super) session: SessionId,
    pub(super) session_name: String,
    /// Only the events of this task, until it has ended.
    pub(super) task: Option<TaskId>,
    pub(super) position: StreamPosition,
    /// Created before the first read, so that no event is missed.
    pub(super) watch: Watch,
    pub(super) text: Option<TextWatch>,
    pub(super) permit: StreamPermit,
}

/// Why a stream ended.
enum StreamEnd {
    /// There will be no more events.
    Complete,
    /// The client has disconnected, or does not read.
    ClientGone,
}

impl EventStream {
    /// The response with the stream; `None` if there will be no more events.
    pub(super) async fn open(self) -> Result<Option<Response>> {
        let has_ended = self.task_has_ended().await?;
        let page = self.read().await?;
        if page.events.is_empty() && page.upto < self.position.after {
            return Err(Refusal::invalid(
                "Last-Event-ID",
                "must be the id of an event of this session",
            )
            .into());
        }
        if has_ended && page.events.is_empty() {
            return Ok(None);
        }
        let (out, mut to_send) = mpsc::channel(BUFFERED);
        let first = sse::Event::default().retry(RECONNECT_AFTER);
        // A client that left out history needs an id to continue from before the first event.
        let first = if self.position.after > 0 && !self.position.start_was_sent {
            first.id(self.position.after.to_string())
        } else {
            first
        };
        tokio::spawn(self.send_until_end(first, page, out));
        let events = futures::stream::poll_fn(move |context| to_send.poll_recv(context));
        let sse = Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE));
        Ok(Some(([(HeaderName::from_static("x-accel-buffering"), "no")], sse).into_response()))
    }

    async fn send_until_end(mut self, first: sse::Event, page: EventPage, out: Sender) {
        let (stopping, key) = (self.streams.stopping.clone(), self.permit.key.clone());
        let error = tokio::select! {
            () = stopping.cancelled() => return,
            () = out.closed() => return,
            StreamEnd::Complete | StreamEnd::ClientGone = self.run(first, page, &out) => return,
            error = key.ended() => error,
        };
        // A client that is gone does not need it.
        let _ = send(&out, error_event(error)).await;
    }

    /// Must be called before the events are read: then a task that has ended has all of its events
    /// in that read.
    async fn task_has_ended(&self) -> Result<bool> {
        match self.task {
            Some(task) => Ok(self.streams.store.has_ended(task).await?),
            None => Ok(false),
        }
    }

    async fn read(&self) -> Result<EventPage> {
        let query = EventQuery {
            task: self.task,
            after: self.position.after,
            limit: PAGE,
            texts: self.streams.texts,
        };
        Ok(self.streams.store.event_page(self.session, query).await?)
    }

    async fn run(&mut self, first: sse::Event, first_page: EventPage, out: &Sender) -> StreamEnd {
        if send(out, first).await.is_err() {
            return StreamEnd::ClientGone;
        }
        let mut page = first_page;
        loop {
            if let Err(end) = self.send_page(&page, out).await {
                return end;
            }
            let is_last = i64::try_from(page.events.len()).is_ok_and(|length| length < PAGE);
            if is_last && let Err(end) = self.wait(page.upto, out).await {
                return end;
            }
            page = match self.read_next().await {
                Ok(page) => page,
                Err(end) => return end,
            };
        }
    }

    async fn send_page(
        &mut self,
        page: &EventPage,
        out: &Sender,
    ) -> std::result::Result<(), StreamEnd> {
        for event in &page.events {
            if let Some(started_at) = event.started_at.filter(|_| event.kind != EventKind::Started)
                && !std::mem::take(&mut self.position.start_was_sent)
            {
                let start = self.data(event, EventKind::Started, started_at);
                send(out, start.as_sse(Some(format!("{}.0", event.number)))).await?;
            }
            self.position = StreamPosition::after(event.number);
            let at =
                event.started_at.filter(|_| event.kind == EventKind::Started).unwrap_or(event.at);
            let data = self.data(event, event.kind, at);
            send(out, data.as_sse(Some(event.number.to_string()))).await?;
            if self.task.is_some() && event.kind.is_terminal() {
                return Err(StreamEnd::Complete);
            }
        }
        if page.upto > self.position.after {
            self.position = StreamPosition::after(page.upto);
        }
        Ok(())
    }

    /// Waits for the next event, and streams live text meanwhile.
    async fn wait(&mut self, upto: i64, out: &Sender) -> std::result::Result<(), StreamEnd> {
        self.watch.mark_seen(upto);
        loop {
            let text = tokio::select! {
                () = self.watch.changed() => return Ok(()),
                text = next_text(&mut self.text) => text,
            };
            send(out, EventData::text(&self.session_name, &text).as_sse(None)).await?;
        }
    }

    async fn read_next(&self) -> std::result::Result<EventPage, StreamEnd> {
        loop {
            match self.read().await {
                Ok(page) => return Ok(page),
                // The session was deleted.
                Err(Error::Refused(_)) => return Err(StreamEnd::Complete),
                Err(error) => {
                    warn_unless_outage!(error, "poll failed: cannot read new events: {error}");
                    tokio::time::sleep(RETRY_AFTER).await;
                }
            }
        }
    }

    fn data<'a>(&'a self, event: &'a Event, kind: EventKind, at: DateTime<Utc>) -> EventData<'a> {
        // The start and the end of a task also name its agent, its trace and its texts.
        let is_boundary = kind == EventKind::Started || kind.is_terminal();
        let plain = EventData {
            agent: is_boundary.then_some(event.agent.as_str()),
            correlation_id: is_boundary.then_some(event.task),
            traceparent: event.traceparent.as_deref().filter(|_| is_boundary),
            task: is_boundary.then(|| TextData::of(event.task, &event.assignment)),
            session_id: &self.session_name,
            task_id: event.task_number.to_string(),
            id: event.task,
            kind: kind.as_str(),
            at: timestamp::utc(at),
            attempt: event.attempt,
            ..EventData::default()
        };
        if kind != event.kind {
            return plain;
        }
        let answer = event.answer.as_ref();
        let spent = answer.map(|answer| answer.spent).or(event.spent);
        EventData {
            turn: event.turn,
            turn_kind: answer.map(|answer| answer.kind),
            model: answer.and_then(|answer| answer.model.as_deref()),
            duration_ms: answer.map(|answer| answer.duration_ms),
            input_tokens: spent.map(|spent| spent.input_tokens),
            output_tokens: spent.map(|spent| spent.output_tokens),
            cost_usd: spent.and_then(|spent| usd(spent.cost_nanousd)),
            tool: event.tool.as_ref().map(|tool| tool.name.as_deref().unwrap_or("unknown")),
            is_error: event.tool.as_ref().map(|tool| tool.is_error),
            limit: event.limit.map(LimitData::of),
            budget: event.budget.map(BudgetData::of),
            failure: event.failure,
            error: event.error.as_deref(),
            detail: event.detail.as_deref(),
            result: event.result.as_ref().map(|result| TextData::of(event.task, result)),
            ..plain
        }
    }
}

type Sender = mpsc::Sender<std::result::Result<sse::Event, Infallible>>;

async fn send(out: &Sender, event: sse::Event) -> std::result::Result<(), StreamEnd> {
    match tokio::time::timeout(WRITE_TIMEOUT, out.send(Ok(event))).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(StreamEnd::ClientGone),
    }
}

/// The last event of a stream whose key is no longer valid.
fn error_event(error: Error) -> sse::Event {
    let code = error.code();
    let data = json!({"kind": "error", "error": code, "message": error.into_message()});
    sse::Event::default().event("error").data(data.to_string())
}

async fn next_text(text: &mut Option<TextWatch>) -> std::sync::Arc<LiveText> {
    match text {
        Some(text) => text.next().await,
        None => std::future::pending().await,
    }
}

/// A text of a task: the id with which it can be read, its size, and the text itself if payloads
/// are logged.
#[derive(Debug, Serialize)]
struct TextData<'a> {
    id: TaskId,
    bytes: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
}

impl<'a> TextData<'a> {
    fn of(id: TaskId, text: &'a TextRef) -> Self {
        Self { id, bytes: text.bytes, text: text.text.as_deref() }
    }
}

/// A limit of a budget: tokens, or US dollars of `max_cost_usd`.
#[derive(Debug, Serialize)]
struct LimitData {
    scope: BudgetScope,
    limit: BudgetLimit,
    allowed: f64,
    spent: f64,
}

impl LimitData {
    fn of(OverBudget { scope, limit, allowed, spent }: OverBudget) -> Self {
        let figure = |value: i64| match limit {
            BudgetLimit::Cost => usd(value).unwrap_or_default(),
            #[expect(clippy::cast_precision_loss, reason = "tokens are far below 2^53")]
            BudgetLimit::InputTokens | BudgetLimit::OutputTokens => value as f64,
        };
        Self { scope, limit, allowed: figure(allowed), spent: figure(spent) }
    }
}

#[derive(Debug, Serialize)]
struct BudgetData {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_input_tokens: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_cost_usd: Option<f64>,
}

impl BudgetData {
    fn of(budget: Budget) -> Self {
        let Budget { max_input_tokens, max_output_tokens, max_cost_nanousd } = budget;
        let max_cost_usd = max_cost_nanousd.and_then(usd);
        Self { max_input_tokens, max_output_tokens, max_cost_usd }
    }
}

/// The data of an event. It has no text of a task, except live text that the client requested, and
/// the texts of starts and ends if payloads are logged.
#[derive(Debug, Default, Serialize)]
struct EventData<'a> {
    session_id: &'a str,
    task_id: String,
    id: TaskId,
    kind: &'static str,
    at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<TaskId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<&'a str>,
    /// The assignment.
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<TextData<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<TextData<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn_kind: Option<TurnKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_tokens: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_tokens: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_error: Option<bool>,
    /// What a warning is about, or why a task is paused.
    #[serde(skip_serializing_if = "Option::is_none", flatten)]
    limit: Option<LimitData>,
    /// The limits after a raise.
    #[serde(skip_serializing_if = "Option::is_none")]
    budget: Option<BudgetData>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<FailureKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    /// Of `retrying`: the model, its host, and what went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
    /// Where the text starts in the answer, in characters; 0 starts a new answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
}

impl<'a> EventData<'a> {
    fn text(session_name: &'a str, live: &'a LiveText) -> Self {
        Self {
            session_id: session_name,
            task_id: live.task_number.to_string(),
            id: live.task,
            kind: "text",
            at: timestamp::utc(Utc::now()),
            turn: Some(live.turn),
            offset: Some(live.offset),
            text: Some(&live.text),
            ..Self::default()
        }
    }

    fn as_sse(&self, id: Option<String>) -> sse::Event {
        let data = serde_json::to_string(self).unwrap_or_default();
        let event = sse::Event::default().event(self.kind).data(data);
        match id {
            Some(id) => event.id(id),
            None => event,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_the_id_of_an_event() {
        assert_eq!(StreamPosition::parse("after", "12").ok(), Some(StreamPosition::after(12)));
        assert_eq!(StreamPosition::parse("after", "0").ok(), Some(StreamPosition::default()));
        let between = StreamPosition { after: 11, start_was_sent: true };
        assert_eq!(StreamPosition::parse("after", "12.0").ok(), Some(between));
        for wrong in
            ["", "x", "-1", "+1", "12.1", ".0", "0.0", "12.", "1e3", "99999999999999999999"]
        {
            assert!(StreamPosition::parse("after", wrong).is_err(), "{wrong:?}");
        }
    }
}
