use std::convert::Infallible;
use std::time::Duration;

use adjutant_agent::{EventKind, FailureKind, Refusal, SessionId, TaskId, TurnKind, usd};
use adjutant_store::{Event, EventPage, LiveText, moment};
use axum::http::HeaderName;
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Utc};
use serde::Serialize;
use tokio::sync::mpsc;

use super::events::{Admission, EventStreams};
use crate::{Error, Result, TextWatch, Watch};

/// Events read at a time.
const PAGE: i64 = 200;

/// Events on their way to a reader.
const ON_THE_WAY: usize = 32;

/// A reader that takes nothing for so long is left: it can go on where it was.
const PATIENCE: Duration = Duration::from_secs(20);

const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// When a client that lost its stream comes again.
const COME_AGAIN: Duration = Duration::from_secs(1);

/// The database is away: the stream goes on when it is back.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// A place in a session's history. An event that stands for a start as well is two for its reader, and the place may be
/// between them: `12.0` is the start, `12` the event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Place {
    after: i64,
    start_was_shown: bool,
}

impl Place {
    pub(super) fn after(number: i64) -> Self {
        Self { after: number, start_was_shown: false }
    }

    pub(super) fn parse(field: &str, id: &str) -> Result<Self> {
        let number = |digits: &str| {
            let is_plain = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
            digits.parse::<i64>().ok().filter(|_| is_plain)
        };
        let place = match id.strip_suffix(".0") {
            Some(digits) => number(digits)
                .filter(|number| *number > 0)
                .map(|number| Self { after: number - 1, start_was_shown: true }),
            None => number(id).map(Self::after),
        };
        place.ok_or_else(|| Refusal::invalid(field, "is not the id of an event").into())
    }
}

/// One who reads a stream.
pub(super) struct Reader {
    pub(super) streams: EventStreams,
    pub(super) session: SessionId,
    pub(super) session_name: String,
    /// Only this one's events, until it has ended.
    pub(super) task: Option<TaskId>,
    pub(super) place: Place,
    /// Begun before anything is read.
    pub(super) watch: Watch,
    pub(super) text: Option<TextWatch>,
    pub(super) _admission: Admission,
}

/// Why a stream goes no further.
enum Over {
    /// There will be no more events.
    AllIsTold,
    /// The reader is gone, or as good as gone.
    ReaderGone,
}

impl Reader {
    /// Answers with the stream; with nothing if there is nothing to come.
    pub(super) async fn begin(mut self) -> Result<Option<Response>> {
        let has_ended = self.task_has_ended().await?;
        let page = self.read().await?;
        if page.events.is_empty() && page.upto < self.place.after {
            return Err(Refusal::invalid("Last-Event-ID", "is not the id of an event of this session").into());
        }
        if has_ended && page.events.is_empty() {
            return Ok(None);
        }
        let (out, mut to_send) = mpsc::channel(ON_THE_WAY);
        let hello = sse::Event::default().retry(COME_AGAIN);
        // A reader of what is new has a place to come back to before there is anything.
        let hello = if self.place.after > 0 && !self.place.start_was_shown {
            hello.id(self.place.after.to_string())
        } else {
            hello
        };
        tokio::spawn(async move {
            let stopping = self.streams.stopping.clone();
            tokio::select! {
                () = stopping.cancelled() => {}
                () = out.closed() => {}
                Over::AllIsTold | Over::ReaderGone = self.run(hello, page, &out) => {}
            }
        });
        let events = futures::stream::poll_fn(move |context| to_send.poll_recv(context));
        let sse = Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE));
        Ok(Some(([(HeaderName::from_static("x-accel-buffering"), "no")], sse).into_response()))
    }

    /// Asked before its events are read: then they are all there.
    async fn task_has_ended(&self) -> Result<bool> {
        match self.task {
            Some(task) => Ok(self.streams.store.has_ended(task).await?),
            None => Ok(false),
        }
    }

    async fn read(&self) -> Result<EventPage> {
        Ok(self.streams.store.event_page(self.session, self.task, self.place.after, PAGE).await?)
    }

    async fn run(&mut self, hello: sse::Event, first: EventPage, out: &Sender) -> Over {
        if send(out, hello).await.is_err() {
            return Over::ReaderGone;
        }
        let mut page = first;
        loop {
            if let Err(over) = self.tell(&page, out).await {
                return over;
            }
            let is_last = i64::try_from(page.events.len()).is_ok_and(|length| length < PAGE);
            if is_last && let Err(over) = self.wait(page.upto, out).await {
                return over;
            }
            page = match self.read_on().await {
                Ok(page) => page,
                Err(over) => return over,
            };
        }
    }

    async fn tell(&mut self, page: &EventPage, out: &Sender) -> std::result::Result<(), Over> {
        for event in &page.events {
            if let Some(started_at) = event.started_at.filter(|_| event.kind != EventKind::Started)
                && !std::mem::take(&mut self.place.start_was_shown)
            {
                let start = self.shown(event, EventKind::Started, started_at);
                send(out, start.as_sse(Some(format!("{}.0", event.number)))).await?;
            }
            self.place = Place::after(event.number);
            let at = event.started_at.filter(|_| event.kind == EventKind::Started).unwrap_or(event.at);
            let shown = self.shown(event, event.kind, at);
            send(out, shown.as_sse(Some(event.number.to_string()))).await?;
            if self.task.is_some() && event.kind.is_terminal() {
                return Err(Over::AllIsTold);
            }
        }
        if page.upto > self.place.after {
            self.place = Place::after(page.upto);
        }
        Ok(())
    }

    /// Until there is something to read; live text goes out meanwhile.
    async fn wait(&mut self, upto: i64, out: &Sender) -> std::result::Result<(), Over> {
        self.watch.saw(upto);
        loop {
            let text = tokio::select! {
                () = self.watch.changed() => return Ok(()),
                text = next_text(&mut self.text) => text,
            };
            send(out, Shown::text(&self.session_name, &text).as_sse(None)).await?;
        }
    }

    async fn read_on(&self) -> std::result::Result<EventPage, Over> {
        loop {
            match self.read().await {
                Ok(page) => return Ok(page),
                // The session is gone.
                Err(Error::Refused(_)) => return Err(Over::AllIsTold),
                Err(error) => {
                    tracing::warn!("cannot read events, trying again: {error}");
                    tokio::time::sleep(TRY_AGAIN).await;
                }
            }
        }
    }

    fn shown<'a>(&'a self, event: &'a Event, kind: EventKind, at: DateTime<Utc>) -> Shown<'a> {
        // Both ends of a delegation say whose it is and where it belongs.
        let is_an_end = kind == EventKind::Started || kind.is_terminal();
        let plain = Shown {
            agent: is_an_end.then_some(event.agent.as_str()),
            correlation_id: is_an_end.then_some(event.task),
            traceparent: event.traceparent.as_deref().filter(|_| is_an_end),
            session_id: &self.session_name,
            task_id: event.task_number.to_string(),
            id: event.task,
            kind: kind.as_str(),
            at: moment::utc(at),
            attempt: event.attempt,
            ..Shown::default()
        };
        if kind != event.kind {
            return plain;
        }
        let answer = event.answer.as_ref();
        let spent = answer.map(|answer| answer.spent).or(event.spent);
        Shown {
            turn: event.turn,
            turn_kind: answer.map(|answer| answer.kind),
            model: answer.and_then(|answer| answer.model.as_deref()),
            duration_ms: answer.map(|answer| answer.duration_ms),
            input_tokens: spent.map(|spent| spent.input_tokens),
            output_tokens: spent.map(|spent| spent.output_tokens),
            cost_usd: spent.and_then(|spent| usd(spent.cost_nanousd)),
            tool: event.tool.as_ref().map(|tool| tool.name.as_deref().unwrap_or("unknown")),
            is_error: event.tool.as_ref().map(|tool| tool.is_error),
            failure: event.failure,
            error: event.error.as_deref(),
            ..plain
        }
    }
}

type Sender = mpsc::Sender<std::result::Result<sse::Event, Infallible>>;

async fn send(out: &Sender, event: sse::Event) -> std::result::Result<(), Over> {
    match tokio::time::timeout(PATIENCE, out.send(Ok(event))).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(Over::ReaderGone),
    }
}

async fn next_text(text: &mut Option<TextWatch>) -> std::sync::Arc<LiveText> {
    match text {
        Some(text) => text.next().await,
        None => std::future::pending().await,
    }
}

/// An event as its reader sees it: who, what and when; of what was said, only text that was asked for.
#[derive(Debug, Default, Serialize)]
struct Shown<'a> {
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
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<FailureKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    /// Where in the answer the text begins, in characters; 0 begins it anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
}

impl<'a> Shown<'a> {
    fn text(session_name: &'a str, said: &'a LiveText) -> Self {
        Self {
            session_id: session_name,
            task_id: said.task_number.to_string(),
            id: said.task,
            kind: "text",
            at: moment::utc(Utc::now()),
            turn: Some(said.turn),
            offset: Some(said.offset),
            text: Some(&said.text),
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
    fn a_place_is_what_an_event_is_called() {
        assert_eq!(Place::parse("after", "12").ok(), Some(Place::after(12)));
        assert_eq!(Place::parse("after", "0").ok(), Some(Place::default()));
        let between = Place { after: 11, start_was_shown: true };
        assert_eq!(Place::parse("after", "12.0").ok(), Some(between));
        for wrong in ["", "x", "-1", "+1", "12.1", ".0", "0.0", "12.", "1e3", "99999999999999999999"] {
            assert!(Place::parse("after", wrong).is_err(), "{wrong:?}");
        }
    }
}
