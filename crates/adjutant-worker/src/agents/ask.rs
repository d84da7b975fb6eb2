//! One answer from a model, whatever it takes: leave, gate, tries.

use std::time::{Duration, Instant};

use adjutant_agent::{
    AgentSpec, BudgetScope, FailureKind, OverBudget, Request, Spent, StoredTurn, ToolDefinition, Turn,
    TurnKind, give_up,
};
use adjutant_store::Clearance;
use rand::RngExt;
use tracing::Instrument;

use crate::model::{CallError, Model, Reply, Retries, Retry};
use crate::{Cleared, End, Stop, Task, fault, payloads};

/// A gate that stays closed for longer than this is not waited for in a slot: others can use it meanwhile.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// All that wait for a gate would come at once when it opens: they come within this time.
const SPREAD: Duration = Duration::from_millis(500);

pub(super) enum Asked {
    Answered(Turn),
    Ended(End),
}

/// One question to a model.
pub(super) struct Question<'a> {
    pub(super) agent: &'a AgentSpec,
    pub(super) kind: TurnKind,
    pub(super) request: &'a Request<'a>,
    pub(super) tools: &'a [ToolDefinition],
    /// What was said before, and what it cost.
    pub(super) turns: &'a [StoredTurn],
}

/// `cleared` is what the turn before has asked already.
pub(super) async fn ask(
    task: &Task,
    model: &Model,
    question: Question<'_>,
    mut cleared: Option<Cleared>,
) -> Result<Asked, Stop> {
    let mut retries = Retries::default();
    loop {
        let permit = task.unless_leaving(model.permit()).await?;
        task.go_on()?;
        let clearance = match cleared.take().and_then(Cleared::if_fresh) {
            Some(clearance) => clearance,
            None => task.clearance(model.name()).await?,
        };
        if let Err(over) = within_budgets(&question, &clearance) {
            return Ok(Asked::Ended(question.give_up(FailureKind::Budget, over.to_string())));
        }
        if !clearance.closed_for.is_zero() {
            drop(permit);
            let wait = clearance.closed_for + rand::rng().random_range(Duration::ZERO..SPREAD);
            if clearance.closed_for > LONGEST_WAIT {
                return Ok(Asked::Ended(End::Released { delay: Some(wait) }));
            }
            task.pause(wait).await;
            continue;
        }
        let began = Instant::now();
        let error = match call(task, model, &question).await {
            Ok(reply) => return Ok(Asked::Answered(question.answered(model, reply, began.elapsed()))),
            Err(error) => error,
        };
        drop(permit);
        task.falls_silent();
        let retry = retries.after(&error, began.elapsed());
        log_failure(task, model, &error, &retry);
        match retry {
            Retry::Again(pause) => task.pause(pause).await,
            Retry::GateFor(time) => task.close_gate(model.name(), time).await?,
            Retry::GiveUp => {
                return Ok(Asked::Ended(question.give_up(FailureKind::Model, error.to_string())));
            }
        }
    }
}

async fn call(task: &Task, model: &Model, question: &Question<'_>) -> Result<Reply, CallError> {
    let span = tracing::info_span!(
        "chat",
        otel.name = format!("chat {}", model.name_on_the_wire()),
        otel.kind = "client",
        otel.status_code = tracing::field::Empty,
        gen_ai.operation.name = "chat",
        gen_ai.conversation.id = %task.id(),
        gen_ai.provider.name = model.wire().as_str(),
        gen_ai.request.model = model.name_on_the_wire(),
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
    let called = async {
        payloads::asked(task.id(), question.request);
        fault::point("calling");
        let reply = model.call(question.request, question.tools, |text| task.says(text)).await;
        fault::point("answered");
        if let Ok(reply) = &reply {
            payloads::answered(task.id(), &reply.answer);
        }
        reply
    };
    let reply = called.instrument(span.clone()).await;
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
    let (id, name, what) = (task.id(), model.name(), error.outline());
    match retry {
        Retry::Again(pause) | Retry::GateFor(pause) => {
            let again_ms = pause.as_millis();
            tracing::warn!(task.id = %id, model.name = name, again_ms, "a call for task {id} failed, to be made again: {what}");
        }
        Retry::GiveUp => {
            tracing::warn!(task.id = %id, model.name = name, "a call for task {id} failed for good: {what}");
        }
    }
}

impl Question<'_> {
    fn answered(&self, model: &Model, reply: Reply, took: Duration) -> Turn {
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

/// The task's own budget, its tree's and its session's: with what is spent before the call, whatever the call will cost.
fn within_budgets(question: &Question<'_>, clearance: &Clearance) -> Result<(), OverBudget> {
    question.agent.budget.check(BudgetScope::Task, Spent::on(question.turns))?;
    if let Some(tree) = &clearance.tree {
        tree.budget.check(BudgetScope::Tree, tree.spent)?;
    }
    if let Some(session) = &clearance.session {
        session.budget.check(BudgetScope::Session, session.spent)?;
    }
    Ok(())
}
