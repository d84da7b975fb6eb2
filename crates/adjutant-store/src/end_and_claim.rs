use adjutant_agent::{Depth, LeaseId, SessionId, TaskId, TaskNumber};

use crate::end::{Rows, wake_deliverers};
use crate::{Assignment, Claim, Ending, Error, Lease, Result, Unwritten, Worker};

/// What became of endings, and what was claimed in their place.
#[derive(Debug, Default)]
pub struct EndAndClaim {
    pub unwritten: Unwritten,
    pub claims: Vec<Claim>,
}

impl Worker {
    /// Writes endings as [`Store::end_some`](crate::Store::end_some) does, and takes tasks in their
    /// place, and up to `free` more: in one transaction.
    pub async fn end_and_claim(&self, endings: &[Ending], free: u16) -> Result<EndAndClaim> {
        let ends = Rows::of(endings);
        let rows = self.calls.call(async |connection| {
                sqlx::query!(
                    r#"select
                        what as "what!", slot, task as "task!", lease, session, number, attempt, answers, running_ms,
                        parent, root, depth, agent, config, assignment, traceparent, created_at,
                        (select name from session where id = turned.session) as session_name,
                        (select tenant from session where id = turned.session) as tenant
                       from end_and_claim_1($1, $2, $3, $4, $5, $6, $7, $8) turned"#,
                    self.id.0,
                    i32::from(free),
                    &ends.slots,
                    &ends.tasks,
                    &ends.leases,
                    &ends.outcomes as _,
                    &ends.results as _,
                    &ends.details as _,
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        self.store.tell_of(endings);
        let mut end_and_claim = EndAndClaim::default();
        for row in rows {
            if row.what == "delivers" {
                wake_deliverers(endings);
                continue;
            }
            if row.what != "claimed" {
                end_and_claim.unwritten.add(&row.what, TaskId(row.task));
                continue;
            }
            let missing = || Error::Unexpected(sqlx::Error::Decode("a claim is not whole".into()));
            end_and_claim.claims.push(Claim {
                lease: Lease {
                    store: self.store.clone(),
                    task: TaskId(row.task),
                    id: LeaseId(row.lease.ok_or_else(missing)?),
                    slot: row.slot.ok_or_else(missing)?,
                    session: SessionId(row.session.ok_or_else(missing)?),
                    attempt: row.attempt.ok_or_else(missing)?,
                    answers: row.answers.ok_or_else(missing)?,
                },
                assignment: Assignment {
                    number: TaskNumber(row.number.ok_or_else(missing)?),
                    session_name: row.session_name,
                    tenant: row.tenant,
                    agent: row.agent.ok_or_else(missing)?,
                    config: row.config.ok_or_else(missing)?,
                    text: row.assignment.ok_or_else(missing)?,
                    answers: row.answers.ok_or_else(missing)?,
                    running_ms: row.running_ms.ok_or_else(missing)?,
                    parent: row.parent.map(TaskId),
                    root: TaskId(row.root.ok_or_else(missing)?),
                    depth: Depth(row.depth.ok_or_else(missing)?),
                    traceparent: row.traceparent,
                    created_at: row.created_at.ok_or_else(missing)?,
                },
            });
        }
        Ok(end_and_claim)
    }
}
