//! One answer from a model: waits for its limits and its gate, checks budgets, retries failed
//! calls.

use std::sync::Arc;
use std::time::{Duration, Instant};

use adjutant_agent::{
    AgentConfig, FailureKind, Request, StoredTurn, ToolDefinition, Turn, TurnKind, give_up,
};
use rand::RngExt;
use tracing::Instrument;

use super::budgets::check_money;
use super::call_limiter::{CallGrant, CallLimiter, Permission};
use super::models::{LimitedModel, ModelChain};
use crate::model::{CallError, HeaderMap, Model, Reply, Retries, Retry, remaining};
use crate::{End, PreflightResult, Stop, Task, fault, payloads};

/// A task waits for a closed gate, or for its turn under the limits of its model, in its slot for
/// at most this time. Otherwise it is released, and other tasks use the slot.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Calls that wait for a gate start within this time after it opens, not all at once.
const SPREAD: Duration = Duration::from_millis(500);

/// How often a model with a fallback is tried.
const TRIES_BEFORE_FALLBACK: u32 = 3;

/// A model whose tries all failed is not tried for this time if it has a fallback, and for longer
/// than tasks wait for its gate.
const OUTAGE: Duration = Duration::from_secs(60);

pub(super) enum CallResult {
    Answered(Turn),
    Ended(End),
    /// The model cannot be called now, and the chain has other models.
    Unavailable {
        /// None if all tries have failed.
        closed_for: Option<Duration>,
        error: String,
    },
}

/// One model call of an agent.
pub(super) struct ModelCall<'a> {
    pub(super) agent: &'a AgentConfig,
    pub(super) kind: TurnKind,
    pub(super) request: &'a Request<'a>,
    pub(super) tools: &'a [ToolDefinition],
    /// The stored turns with their costs.
    pub(super) turns: &'a [StoredTurn],
}

/// `preflight` comes from the checkpoint of the turn before.
pub(super) async fn call_model(
    task: &Task,
    chain: &ModelChain,
    call: ModelCall<'_>,
    mut preflight: Option<PreflightResult>,
) -> Result<CallResult, Stop> {
    let LimitedModel { model, limiter } = chain.current();
    let mut retries = match chain.patience() {
        Some(_) => Retries::at_most(TRIES_BEFORE_FALLBACK),
        None => Retries::default(),
    };
    loop {
        let mut grant = match limiter {
            Some(limiter) => match permission(task, limiter, model, &call).await? {
                Permission::Granted(grant) => Some(grant),
                Permission::Later(wait) => {
                    log_wait(task, model, wait);
                    return Ok(released(wait));
                }
            },
            None => None,
        };
        task.check_may_continue()?;
        let preflight = match preflight.take().and_then(PreflightResult::if_fresh) {
            Some(preflight) => preflight,
            None => task.preflight(model.name()).await?,
        };
        if let Err(stopped) = check_money(task, chain, &call, &preflight).await? {
            return Ok(stopped);
        }
        if !preflight.closed_for.is_zero() {
            drop(grant);
            if let Some(closed) = wait_for_gate(task, chain, preflight.closed_for).await {
                return Ok(closed);
            }
            continue;
        }
        if grant.as_mut().is_some_and(|grant| !grant.start()) {
            continue;
        }
        let started = Instant::now();
        let error = match send(task, model, &call, grant.as_ref()).await {
            Ok(reply) => {
                if let Some(grant) = grant {
                    grant.settle(&reply.usage);
                }
                task.call_answered(reply.usage);
                return Ok(CallResult::Answered(call.turn(model, reply, started.elapsed())));
            }
            Err(error) => error,
        };
        drop(grant);
        task.clear_draft();
        task.call_failed().await?;
        let retry = retries.after(&error, started.elapsed());
        log_failure(task, model, &error, &retry);
        match retry {
            Retry::After(pause) => task.pause(pause).await,
            Retry::CloseGate(time) => task.close_gate(model.name(), time).await?,
            Retry::GiveUp => return give_up_model(task, chain, &call, &error).await,
        }
    }
}

async fn permission(
    task: &Task,
    limiter: &CallLimiter,
    model: &Model,
    call: &ModelCall<'_>,
) -> Result<Permission, Stop> {
    let tokens = limiter.estimate(|| model.estimate_tokens(call.request, call.tools));
    limiter.permission(task, tokens).await
}

fn released(wait: Duration) -> CallResult {
    CallResult::Ended(End::Released { delay: Some(wait) })
}

/// Waits in the slot, or returns what the task does instead.
async fn wait_for_gate(
    task: &Task,
    chain: &ModelChain,
    closed_for: Duration,
) -> Option<CallResult> {
    if chain.patience().is_some_and(|patience| closed_for > patience) {
        let name = chain.current().model.name();
        let error = format!("the gate of model {name} is closed");
        return Some(CallResult::Unavailable { closed_for: Some(closed_for), error });
    }
    let wait = spread(closed_for);
    if closed_for > LONGEST_WAIT {
        return Some(released(wait));
    }
    task.pause(wait).await;
    None
}

/// The time after which to call a model that opens in this time.
pub(super) fn spread(opens_in: Duration) -> Duration {
    opens_in + rand::rng().random_range(Duration::ZERO..SPREAD)
}

/// After the last try. A model that is down is closed for the next calls too, so that they go to
/// its fallback at once.
async fn give_up_model(
    task: &Task,
    chain: &ModelChain,
    call: &ModelCall<'_>,
    error: &CallError,
) -> Result<CallResult, Stop> {
    let model = &chain.current().model;
    match chain.patience() {
        Some(patience) if !matches!(error, CallError::Permanent { .. }) => {
            if chain.has_next() {
                task.close_gate(model.name(), OUTAGE.max(patience * 2)).await?;
            }
            Ok(CallResult::Unavailable { closed_for: None, error: error.to_string() })
        }
        Some(_) | None => {
            Ok(CallResult::Ended(call.give_up(FailureKind::Model, error.to_string())))
        }
    }
}

async fn send(
    task: &Task,
    model: &Arc<Model>,
    call: &ModelCall<'_>,
    grant: Option<&CallGrant>,
) -> Result<Reply, CallError> {
    let span = tracing::info_span!(
        "chat",
        otel.name = format!("chat {}", model.model_id()),
        otel.kind = "client",
        otel.status_code = tracing::field::Empty,
        gen_ai.operation.name = "chat",
        gen_ai.conversation.id = %task.id(),
        gen_ai.provider.name = model.wire().as_str(),
        gen_ai.request.model = model.model_id(),
        gen_ai.request.max_tokens = model.max_tokens(),
        gen_ai.response.model = tracing::field::Empty,
        gen_ai.response.id = tracing::field::Empty,
        gen_ai.usage.input_tokens = tracing::field::Empty,
        gen_ai.usage.output_tokens = tracing::field::Empty,
        gen_ai.usage.cache_read.input_tokens = tracing::field::Empty,
        gen_ai.usage.cache_creation.input_tokens = tracing::field::Empty,
        server.address = model.host(),
        server.port = model.port(),
        error.type = tracing::field::Empty,
    );
    let sending = async {
        payloads::log_request(task.id(), call.request);
        fault::point("calling");
        let report = |headers: &HeaderMap| {
            if let Some(grant) = grant {
                grant.report(remaining(headers));
            }
        };
        let on_text = |text: &str| task.append_text(text);
        let meter = task.begin_call(model);
        let reply = model.call_metered(call.request, call.tools, &meter, report, on_text).await;
        fault::point("answered");
        if let Ok(reply) = &reply {
            payloads::log_answer(task.id(), &reply.answer);
        }
        reply
    };
    let reply = sending.instrument(span.clone()).await;
    match &reply {
        Ok(reply) => {
            span.record("gen_ai.usage.input_tokens", reply.usage.input_tokens);
            span.record("gen_ai.usage.output_tokens", reply.usage.output_tokens);
            span.record("gen_ai.usage.cache_read.input_tokens", reply.usage.cache_read_tokens);
            span.record("gen_ai.usage.cache_creation.input_tokens", reply.usage.cache_write_tokens);
            if let Some(model) = &reply.model {
                span.record("gen_ai.response.model", model.as_str());
            }
            if let Some(id) = &reply.id {
                span.record("gen_ai.response.id", id.as_str());
            }
        }
        Err(error) => {
            span.record("otel.status_code", "ERROR");
            span.record("error.type", error.kind());
        }
    }
    reply
}

fn log_wait(task: &Task, model: &Model, wait: Duration) {
    tracing::debug!(
        task.id = %task.id(),
        model.name = model.name(),
        wait_ms = wait.as_millis(),
        "task {} gives its slot back until the limits of model {} have room for it",
        task.id(),
        model.name()
    );
}

fn log_failure(task: &Task, model: &Model, error: &CallError, retry: &Retry) {
    let (id, name, what) = (task.id(), model.name(), error.summary());
    match retry {
        Retry::After(pause) | Retry::CloseGate(pause) => {
            let retry_ms = pause.as_millis();
            tracing::warn!(
                task.id = %id,
                model.name = name,
                retry_ms,
                "model call for task {id} failed, retrying: {what}"
            );
        }
        Retry::GiveUp => {
            tracing::warn!(
                task.id = %id,
                model.name = name,
                "model call for task {id} failed, giving up: {what}"
            );
        }
    }
}

impl ModelCall<'_> {
    fn turn(&self, model: &Model, reply: Reply, took: Duration) -> Turn {
        Turn {
            kind: self.kind,
            answer: reply.answer,
            model: Some(model.name().to_owned()),
            usage: reply.usage,
            duration_ms: i64::try_from(took.as_millis()).unwrap_or(i64::MAX),
        }
    }

    pub(super) fn give_up(&self, failure: FailureKind, error: String) -> End {
        super::end(give_up(self.turns, failure, error))
    }
}
