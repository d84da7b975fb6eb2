use adjutant_agent::{Depth, LeaseId, SessionId, TaskId, TaskNumber};
use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::{Lease, Result, Worker};

/// A task that this worker now runs.
#[derive(Debug)]
pub struct Claim {
    pub lease: Lease,
    pub assignment: Assignment,
}

/// The task to run, and the progress of earlier attempts.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    pub number: TaskNumber,
    /// The session's public id; none if the session was created after the claim began.
    pub session_name: Option<String>,
    /// The tenant of the session.
    pub tenant: Option<String>,
    pub agent: String,
    pub config: Value,
    pub text: String,
    pub answers: i32,
    /// The running time of earlier attempts.
    pub running_ms: i64,
    pub parent: Option<TaskId>,
    pub root: TaskId,
    pub depth: Depth,
    pub traceparent: Option<String>,
    pub created_at: DateTime<Utc>,
}

impl Worker {
    /// Claims up to `want` tasks, as far as the fleet has free slots. Tenants share these by their
    /// weights; the tasks of one are claimed first in, first out. Never waits for a lock.
    pub async fn claim(&self, want: u16) -> Result<Vec<Claim>> {
        let rows = self.calls.call(async |connection| sqlx::query!(
            r#"select
                slot as "slot!", task as "task!", lease as "lease!", session as "session!", number as "number!", attempt as "attempt!",
                answers as "answers!", running_ms as "running_ms!", parent, root as "root!", depth as "depth!",
                agent as "agent!", config as "config!", assignment as "assignment!", traceparent,
                created_at as "created_at!", (select name from session where id = claimed.session) as session_name,
                (select tenant from session where id = claimed.session) as tenant
               from claim_1($1, $2) claimed"#,
            self.id.0,
            i32::from(want)
        )
        .fetch_all(connection).await).await?;
        let claims = rows.into_iter().map(|row| Claim {
            lease: Lease {
                store: self.store.clone(),
                task: TaskId(row.task),
                id: LeaseId(row.lease),
                slot: row.slot,
                session: SessionId(row.session),
                attempt: row.attempt,
                answers: row.answers,
            },
            assignment: Assignment {
                number: TaskNumber(row.number),
                session_name: row.session_name,
                tenant: row.tenant,
                agent: row.agent,
                config: row.config,
                text: row.assignment,
                answers: row.answers,
                running_ms: row.running_ms,
                parent: row.parent.map(TaskId),
                root: TaskId(row.root),
                depth: Depth(row.depth),
                traceparent: row.traceparent,
                created_at: row.created_at,
            },
        });
        Ok(claims.collect())
    }
}
