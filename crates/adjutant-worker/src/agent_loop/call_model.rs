//! One answer from a model: checks budgets, waits for the model's gate, retries failed calls.

use std::time::{Duration, Instant};

use adjutant_agent::{
    AgentConfig, BudgetScope, FailureKind, OverBudget, Request, Spent, StoredTurn, ToolDefinition,
    Turn, TurnKind, give_up,
};
use adjutant_store::Preflight;
use rand::RngExt;
use tracing::Instrument;

use crate::model::{CallError, Model, Reply, Retries, Retry};
use crate::{End, PreflightResult, Stop, Task, fault, payloads};

/// A task waits for a closed gate in its slot for at most this time. If the gate stays closed for
/// longer, the task is released and other tasks use the slot.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Calls that wait for a gate start within this time after it opens, not all at once.
const SPREAD: Duration = Duration::from_millis(500);

pub(super) enum CallResult {
    Answered(Turn),
    Ended(End),
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
    model: &Model,
    call: ModelCall<'_>,
    mut preflight: Option<PreflightResult>,
) -> Result<CallResult, Stop> {
    let mut retries = Retries::default();
    loop {
        let permit = task.unless_draining(model.permit()).await?;
        task.check_may_continue()?;
        let preflight = match preflight.take().and_then(PreflightResult::if_fresh) {
            Some(preflight) => preflight,
            None => task.preflight(model.name()).await?,
        };
        if let Err(over) = within_budgets(&call, &preflight) {
            return Ok(CallResult::Ended(call.give_up(FailureKind::Budget, over.to_string())));
        }
        if !preflight.closed_for.is_zero() {
            drop(permit);
            let wait = preflight.closed_for + rand::rng().random_range(Duration::ZERO..SPREAD);
            if preflight.closed_for > LONGEST_WAIT {
                return Ok(CallResult::Ended(End::Released { delay: Some(wait) }));
            }
            task.pause(wait).await;
            continue;
        }
        let started = Instant::now();
        let error = match send(task, model, &call).await {
            Ok(reply) => {
                return Ok(CallResult::Answered(call.turn(model, reply, started.elapsed())));
            }
            Err(error) => error,
        };
        drop(permit);
        task.clear_draft();
        let retry = retries.after(&error, started.elapsed());
        log_failure(task, model, &error, &retry);
        match retry {
            Retry::After(pause) => task.pause(pause).await,
            Retry::CloseGate(time) => task.close_gate(model.name(), time).await?,
            Retry::GiveUp => {
                return Ok(CallResult::Ended(call.give_up(FailureKind::Model, error.to_string())));
            }
        }
    }
}

async fn send(task: &Task, model: &Model, call: &ModelCall<'_>) -> Result<Reply, CallError> {
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
        let reply = model.call(call.request, call.tools, |text| task.append_text(text)).await;
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

    fn give_up(&self, failure: FailureKind, error: String) -> End {
        super::end(give_up(self.turns, failure, error))
    }
}

/// Checks the budgets of the task, its tree and its session against what is spent before the call,
/// whatever the call will cost.
fn within_budgets(call: &ModelCall<'_>, preflight: &Preflight) -> Result<(), OverBudget> {
    call.agent.budget.check(BudgetScope::Task, Spent::on(call.turns))?;
    if let Some(tree) = &preflight.tree {
        tree.budget.check(BudgetScope::Tree, tree.spent)?;
    }
    if let Some(session) = &preflight.session {
        session.budget.check(BudgetScope::Session, session.spent)?;
    }
    Ok(())
}
