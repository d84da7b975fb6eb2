//! A session with many tasks, written to its tables directly.

use adjutant_agent::SessionId;
use adjutant_store::{NewSession, NewTask, TaskContext};

use crate::support::world::{World, queued};

/// Of each table with rows of sessions or of their tasks: the rows of this session.
const ROWS: [(&str, &str); 17] = [
    ("task", "session = $1"),
    ("turn", "task in (select id from task where session = $1)"),
    ("tool_result", "task in (select id from task where session = $1)"),
    ("attempt", "session = $1"),
    ("event", "session = $1"),
    ("notification", "session = $1"),
    ("awaited", "task in (select id from task where session = $1)"),
    ("retried", "task in (select id from task where session = $1)"),
    ("queue", "session = $1"),
    ("slot", "session = $1"),
    ("idempotency", "session = $1"),
    ("webhook_delivery", "session = $1"),
    ("context_entry", "session = $1 or session < 0"),
    ("context_history", "session = $1 or session < 0"),
    ("context_snapshot", "session = $1 or session < 0"),
    ("agent", "session = $1"),
    ("deleted_session", "id = $1"),
];

impl World {
    /// A session with this many completed tasks of one turn and one tool result each, and with room
    /// for many more.
    pub async fn session_with_completed(
        &self,
        tasks: i32,
        change: impl FnOnce(&mut NewSession),
    ) -> SessionId {
        let session = self
            .session_with(|new| {
                new.max_queued = Some(1_000_000);
                change(new);
            })
            .await;
        let statements = [
            "insert into task (
                 id, session, number, root, depth, agent, assignment, state, result, attempt, answers, turns_used,
                 started_at, finished_at
             )
             select id, $1, n, id, 1, 'tester', 'Test it.', 'completed', 'done', 1, 1, 1, now(), now()
             from (select gen_random_uuid() as id, n from generate_series(1, $2) n) made",
            "insert into attempt (task, attempt, session, worker, lease, outcome, turns, claimed_at, ended_at)
             select id, 1, session, id, id, 'completed', 1, now(), now() from task where session = $1 and number <= $2",
            "insert into turn (task, number, attempt, message)
             select id, 1, 1, '{}' from task where session = $1 and number <= $2",
            "insert into tool_result (task, turn, call, attempt, content, is_error)
             select id, 1, 'call', 1, 'found', false from task where session = $1 and number <= $2",
            "insert into notification (task, session, state, read_at)
             select id, session, 'completed', now() from task where session = $1 and number <= $2",
            "insert into event (session, seq, task, kind)
             select session, 2 * number - 1 + k, id, case k when 0 then 'spawned' else 'completed' end
             from task cross join generate_series(0, 1) k
             where session = $1 and number <= $2",
            "insert into usage_delta (tenant, agent, model, outcome, tasks, roots, attempts, turns)
             select s.tenant, 'tester', '', k, $2, case k when 'spawned' then $2 else -$2 end,
                 case k when 'spawned' then 0 else $2 end, case k when 'spawned' then 0 else $2 end
             from session s cross join unnest(array['spawned', 'completed']) k
             where s.id = $1",
            "update session set next_number = $2 + 1, next_event = 2 * $2 + 1 where id = $1",
        ];
        let mut transaction = self.sql.begin().await.unwrap();
        for statement in statements {
            sqlx::query(statement)
                .bind(session.0)
                .bind(tasks)
                .execute(&mut *transaction)
                .await
                .unwrap();
        }
        transaction.commit().await.unwrap();
        session
    }

    /// Completed tasks of a tenant, of which only the oldest has this label.
    pub async fn old_tasks(&self, tenant: &str, tasks: i32, label: &str) {
        let session = self.session_with(|new| new.tenant = tenant.to_owned()).await;
        let insert = "insert into task (
                 id, session, number, root, depth, agent, assignment, state, result, label, attempt, started_at, finished_at
             )
             select id, $1, n, id, 1, 'tester', 'Test it.', 'completed', 'done', case n when 1 then $3 end, 1, now(), now()
             from (select ordered_uuid() as id, n from generate_series(1, $2) n) made";
        sqlx::query(insert)
            .bind(session.0)
            .bind(tasks)
            .bind(label)
            .execute(&self.sql)
            .await
            .unwrap();
    }

    /// Spawns tasks that queue, a thousand in a call.
    pub async fn spawn_queued(&self, session: SessionId, count: usize, task: &NewTask) {
        for _ in 0..count / 1000 {
            self.store.spawn(session, &vec![task.clone(); 1000], None).await.unwrap();
        }
        if !count.is_multiple_of(1000) {
            self.store.spawn(session, &vec![task.clone(); count % 1000], None).await.unwrap();
        }
    }

    /// The tables that have rows of this session.
    pub async fn tables_with_rows_of(&self, session: SessionId) -> Vec<&'static str> {
        let mut tables = Vec::new();
        for (table, rows) in ROWS {
            let query = format!("select exists (select from {table} where {rows})");
            let there: bool = sqlx::query_scalar(sqlx::AssertSqlSafe(query))
                .bind(session.0)
                .fetch_one(&self.sql)
                .await
                .unwrap();
            tables.extend(there.then_some(table));
        }
        tables
    }

    /// The rows of all these tables, whatever they belong to.
    pub async fn rows(&self) -> i64 {
        let mut rows = 0;
        for (table, _) in ROWS.iter().filter(|(table, _)| !["slot", "queue"].contains(table)) {
            let query = format!("select count(*) from {table}");
            rows += sqlx::query_scalar::<_, i64>(sqlx::AssertSqlSafe(query))
                .fetch_one(&self.sql)
                .await
                .unwrap();
        }
        rows
    }
}

/// A task that works on a copy of the shared context.
pub fn with_overlay() -> NewTask {
    NewTask { context: TaskContext::Snapshot, ..queued() }
}
