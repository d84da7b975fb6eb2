use adjutant_agent::dialects::Answer;
use adjutant_agent::{SessionId, TaskNumber};
use adjutant_store::{Progress, Status};

use super::{Dialect, Request};
use crate::{Desk, Error, Result, ToolCall, caliban, ecs, weakincentives, xzatoma};

/// A session that a call is in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seat<'a> {
    pub(crate) tenant: &'a str,
    pub(crate) name: &'a str,
    pub(crate) id: SessionId,
}

/// What has come of a call so far.
#[derive(Debug)]
pub(crate) enum Begun {
    Over(Answer),
    /// Its answer is what becomes of this task.
    Waits(TaskNumber),
}

impl Desk {
    /// Does what a call asks for, but for the waiting. Whatever a tool can say about it is its answer.
    pub(crate) async fn begin(&self, seat: &Seat<'_>, call: &ToolCall, request: &Request) -> Result<Begun> {
        let begun = match request {
            Request::Spec(request) => {
                let answer = self.perform(seat.id, request).await?;
                return Ok(Begun::Over(Answer::json(answer)));
            }
            Request::Refused(answer) => return Ok(Begun::Over(answer.clone())),
            Request::Caliban(asked) => caliban::begin(self, seat, call, asked).await,
            Request::Ecs(asked) => ecs::begin(self, seat, call, asked).await,
            Request::Xzatoma(asked) => xzatoma::begin(self, seat, call, asked).await,
            Request::Weakincentives(asked) => weakincentives::begin(self, seat, call, asked).await,
        };
        begun.or_else(|error| said_by_tool(request, error).map(Begun::Over))
    }

    /// What the dialect says of a task that has ended.
    pub(crate) async fn show_ended(
        &self,
        seat: &Seat<'_>,
        dialect: Dialect,
        ended: &Status,
    ) -> Result<Answer> {
        // Read only by those who await it.
        let record = self.store.task(seat.tenant, ended.id);
        match dialect {
            Dialect::Caliban => caliban::ended(&record.await?),
            Dialect::Ecs => ecs::ended(self, seat, ended.number).await,
            Dialect::Xzatoma => xzatoma::ended(self, seat, &record.await?).await,
            Dialect::Weakincentives => weakincentives::ended(self, &record.await?).await,
            Dialect::Spec => Err(no_wait(dialect)),
        }
    }

    /// What the dialect says of a task that has not ended when its caller has waited for as long as a call may take.
    pub(crate) async fn show_what_goes_on(
        &self,
        seat: &Seat<'_>,
        dialect: Dialect,
        progress: &Progress,
    ) -> Result<Answer> {
        match dialect {
            Dialect::Caliban => Ok(caliban::goes_on(progress)),
            Dialect::Ecs => ecs::goes_on(self, seat, progress.status.number).await,
            Dialect::Xzatoma => Ok(xzatoma::goes_on(progress)),
            Dialect::Weakincentives => Ok(weakincentives::goes_on(progress)),
            Dialect::Spec => Err(no_wait(dialect)),
        }
    }
}

/// For a dialect none of whose calls waits for one task.
fn no_wait(dialect: Dialect) -> Error {
    Error::bug(&format_args!("a call of {} waits for a task", dialect.as_str()))
}

/// An error in the dialect's own form, if that is for a tool to say.
pub(crate) fn said_by_tool(request: &Request, error: Error) -> Result<Answer> {
    match error {
        Error::Refused(refusal) => request.refused(&refusal).ok_or(Error::Refused(refusal)),
        error @ (Error::TooOften(_) | Error::Unavailable(_) | Error::Internal(_)) => Err(error),
    }
}
