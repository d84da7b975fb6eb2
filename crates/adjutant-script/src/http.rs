//! The HTTP side of the server: reads requests and sends the planned responses.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, request};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use futures::stream;
use serde_json::{Value, json};

use crate::connections::{ConnectionListener, Cut};
use crate::model_request::{ModelRequest, Wire};
use crate::recorded_request::{End, Keep, Key, RecordedRequest, TurnCount};
use crate::recorder::{Ending, InvalidRequest, Recorder};
use crate::response_plan::{Break, ResponsePlan, Step};
use crate::vendor_checks;

/// The limit of the vendors' APIs.
const MAX_BODY: usize = 32 << 20;

pub(crate) async fn serve(lines: ConnectionListener, records: Arc<Recorder>) {
    let app = Router::new()
        .route("/script/requests", get(requests))
        .route("/script/unexpected", get(unexpected))
        .route("/script/counts", get(counts))
        .fallback(answer)
        .with_state(records);
    // Runs until the server is dropped.
    let _ = axum::serve(lines, app.into_make_service_with_connect_info::<Cut>()).await;
}

async fn answer(
    State(records): State<Arc<Recorder>>,
    ConnectInfo(line): ConnectInfo<Cut>,
    request: Request,
) -> Response {
    let arrived = (Instant::now(), SystemTime::now());
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_BODY).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let (plan, ending) = open(&records, &head, &body, arrived);
    // Free the memory before a wait.
    drop((head, body));
    send(plan, ending, line).await
}

fn open(
    records: &Arc<Recorder>,
    head: &request::Parts,
    body: &[u8],
    (arrived, arrived_at): (Instant, SystemTime),
) -> (ResponsePlan, Ending) {
    let json: Option<Value> = serde_json::from_slice(body).ok();
    let parsed = parse_request(head, json.as_ref(), body.len());
    let keeps = records.keep == Keep::Everything;
    let request = RecordedRequest {
        number: 0,
        arrived,
        arrived_at,
        method: head.method.to_string(),
        path: head.uri.path().to_owned(),
        headers: if keeps { masked(&head.headers) } else { vec![] },
        body: json.filter(|_| keeps).map(Arc::new),
        parsed: None,
        rule: None,
        end: None,
        ended: None,
        key: if keeps { key(&head.headers) } else { Key::default() },
    };
    records.open(request, parsed)
}

fn parse_request(
    head: &request::Parts,
    body: Option<&Value>,
    size: usize,
) -> Result<ModelRequest, InvalidRequest> {
    let wire = Wire::at(head.uri.path()).filter(|_| head.method == Method::POST);
    let invalid = |status: u16, why: &str| InvalidRequest { wire, status, why: why.to_owned() };
    let wire =
        wire.ok_or_else(|| invalid(404, "there is nothing at this path, or not for this method"))?;
    let body = body.ok_or_else(|| invalid(400, "the body is not JSON"))?;
    if wire == Wire::Anthropic && !head.headers.contains_key("anthropic-version") {
        return Err(invalid(400, "anthropic-version: the header is required"));
    }
    let parsed = ModelRequest::parse(wire, body, size).map_err(|why| invalid(400, why))?;
    match vendor_checks::vendor_error(wire, body) {
        Some(why) => Err(invalid(400, &why)),
        None => Ok(parsed),
    }
}

async fn send(plan: ResponsePlan, mut ending: Ending, line: Cut) -> Response {
    if !plan.delay.is_zero() {
        tokio::time::sleep(plan.delay).await;
    }
    if let Some(how) = plan.broken {
        match break_off(how, &mut ending, &line).await {}
    }
    let mut response = Response::builder().status(plan.status);
    for (name, value) in plan.headers {
        response = response.header(name, value);
    }
    let steps = RemainingSteps { left: plan.body.into_iter(), end: plan.end, ending, line };
    let body = Body::from_stream(stream::unfold(steps, RemainingSteps::next));
    response.body(body).unwrap_or_else(|error| {
        (
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("the script has a bad status or header: {error}"),
        )
            .into_response()
    })
}

/// The remaining steps of a response.
struct RemainingSteps {
    left: std::vec::IntoIter<Step>,
    end: End,
    ending: Ending,
    line: Cut,
}

impl RemainingSteps {
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        loop {
            match self.left.next() {
                Some(Step::Wait(time)) => tokio::time::sleep(time).await,
                Some(Step::Break(how)) => {
                    match break_off(how, &mut self.ending, &self.line).await {}
                }
                Some(Step::Send(piece)) => {
                    if self.left.as_slice().is_empty() {
                        self.ending.record(self.end.clone());
                    }
                    return Some((Ok(Bytes::from(piece)), self));
                }
                None => {
                    self.ending.record(self.end.clone());
                    return None;
                }
            }
        }
    }
}

async fn break_off(how: Break, ending: &mut Ending, line: &Cut) -> Infallible {
    if how == Break::Cut {
        ending.record(End::Failed);
        // Lets the connection send what was written before.
        tokio::task::yield_now().await;
        line.0.cancel();
    }
    std::future::pending().await
}

const KEY_HEADERS: [&str; 3] = ["authorization", "x-api-key", "api-key"];

fn key(headers: &HeaderMap) -> Key {
    let value = KEY_HEADERS.iter().find_map(|name| headers.get(*name)?.to_str().ok());
    Key(value.map(|value| value.strip_prefix("Bearer ").unwrap_or(value).to_owned()))
}

fn masked(headers: &HeaderMap) -> Vec<(String, String)> {
    let shown = |name: &HeaderName, value: &str| match name.as_str() {
        "authorization" if value.starts_with("Bearer ") => "Bearer ***".to_owned(),
        "authorization" | "x-api-key" | "api-key" | "cookie" => "***".to_owned(),
        _ => value.to_owned(),
    };
    headers
        .iter()
        .map(|(name, value)| (name.to_string(), shown(name, value.to_str().unwrap_or_default())))
        .collect()
}

async fn requests(State(records): State<Arc<Recorder>>) -> Json<Value> {
    Json(records.requests(|_| true).iter().map(request_view).collect())
}

async fn unexpected(State(records): State<Arc<Recorder>>) -> Json<Value> {
    let unexpected = records.requests(|request| matches!(request.end, Some(End::Unexpected(_))));
    Json(unexpected.iter().map(request_view).collect())
}

async fn counts(State(records): State<Arc<Recorder>>) -> Json<Value> {
    let counts = *records.counts.borrow();
    Json(
        json!({"tally": counts, "turns": records.turns().iter().map(turn_view).collect::<Value>()}),
    )
}

fn request_view(request: &RecordedRequest) -> Value {
    let arrived_at = request.arrived_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let parsed = request.parsed.as_ref();
    json!({
        "number": request.number,
        "arrived_at_ms": u64::try_from(arrived_at.as_millis()).unwrap_or(u64::MAX),
        "method": request.method,
        "path": request.path,
        "headers": request.headers.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
        "wire": parsed.map(|parsed| parsed.wire),
        "model": parsed.map(|parsed| &parsed.model),
        "stream": parsed.map(|parsed| parsed.streams),
        "conversation": parsed.map(|parsed| format!("{:016x}", parsed.conversation.id)),
        "turn": parsed.map(|parsed| parsed.turn),
        "rule": request.rule,
        "end": request.end,
        "body": request.body.as_deref(),
    })
}

fn turn_view(turn: &TurnCount) -> Value {
    json!({
        "conversation": format!("{:016x}", turn.conversation.id),
        "assignment": turn.conversation.assignment,
        "turn": turn.turn,
        "rule": turn.rule,
        "requested": turn.requested,
        "answered": turn.answered,
    })
}
