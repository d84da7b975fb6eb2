//! One answer from a model: waits for its limits and its gate, checks budgets, retries failed
//! calls.

use std::time::{Duration, Instant};

use adjutant_agent::{
    AgentConfig, BudgetScope, FailureKind, OverBudget, Request, Spent, StoredTurn, ToolDefinition,
    Turn, TurnKind, give_up, prompts,
};
use adjutant_store::Preflight;
use rand::RngExt;
use tracing::Instrument;

use super::call_limiter::{CallGrant, CallLimiter, Permission};
use super::failing_call::{AtCircuit, FailingCall, Failure, answered};
use super::models::{LimitedModel, ModelChain};
use crate::model::{CallError, HeaderMap, Model, Reply, remaining};
use crate::{End, PreflightResult, Stop, Task, fault, payloads};

/// A task waits for a closed gate, or for its turn under the limits of its model, in its slot for
/// at most this time. Otherwise it is released, and other tasks use the slot.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Calls that wait for a gate start within this time after it opens, not all at once.
const SPREAD: Duration = Duration::from_millis(500);

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
    failing: &mut FailingCall,
    mut preflight: Option<PreflightResult>,
) -> Result<CallResult, Stop> {
    let LimitedModel { model, limiter } = chain.current();
    failing.enters_model();
    let mut is_probe = false;
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
        if let Err(over) = within_budgets(&call, &preflight) {
            return Ok(CallResult::Ended(call.give_up(FailureKind::Budget, over.to_string())));
        }
        if preflight.is_circuit && !is_probe {
            match failing.at_circuit(task, chain, &call).await? {
                AtCircuit::Probes => is_probe = true,
                AtCircuit::LooksAgain => continue,
                AtCircuit::Leaves(result) => return Ok(result),
            }
        } else if !preflight.is_circuit && !preflight.closed_for.is_zero() {
            drop(grant);
            let wait = failing.spread(preflight.closed_for);
            if let Some(closed) = wait_for_gate(task, chain, preflight.closed_for, wait).await {
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
                answered(task, model, is_probe).await?;
                return Ok(CallResult::Answered(call.turn(model, reply, started.elapsed())));
            }
            Err(error) => error,
        };
        drop(grant);
        task.clear_draft();
        let failure = Failure { error: &error, took: started.elapsed(), is_probe };
        if let Some(result) = failing.failed(task, chain, &call, failure).await? {
            return Ok(result);
        }
        is_probe = false;
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
    wait: Duration,
) -> Option<CallResult> {
    if chain.patience().is_some_and(|patience| closed_for > patience) {
        let name = chain.current().model.name();
        let error = prompts::model_error(format!("the gate of model `{name}` is closed"));
        return Some(CallResult::Unavailable { closed_for: Some(closed_for), error });
    }
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

async fn send(
    task: &Task,
    model: &Model,
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
        let reply = model.call_with_headers(call.request, call.tools, report, on_text).await;
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
