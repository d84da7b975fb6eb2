use crate::{Result, Store};

/// Tasks of each session that is made.
const PER_SESSION: i64 = 100;

impl Store {
    /// Adds sessions of 100 finished tasks each, with 1 KB of assignment and result, until there are `tasks` in all: what a
    /// benchmark needs to see how history weighs.
    pub async fn add_history(&self, tasks: i64) -> Result<i64> {
        let mut transaction = self.pool.begin().await?;
        sqlx::query!(
            "insert into session (tenant, name, next_number, next_event)
             select 'history', gen_random_uuid()::text, $2::bigint + 1, 2 * $2::bigint + 1
             from generate_series(1, greatest(0, $1::bigint - (select count(*) from task)) / $2::bigint)",
            tasks,
            PER_SESSION
        )
        .execute(&mut *transaction)
        .await?;
        let made = sqlx::query!(
            "with made as (
                 insert into task (
                     id, session, number, root, depth, agent, assignment, state, result, attempt, started_at, finished_at
                 )
                 select i.id, s.id, i.number, i.id, 0, 'history', repeat(md5(i.id::text), 32),
                     'completed', repeat(md5(i.number::text), 32), 1, now(), now()
                 from session s
                 cross join lateral (
                     select gen_random_uuid() as id, n as number, s.id as of_session
                     from generate_series(1, $1::bigint) n
                 ) i
                 where s.tenant = 'history' and not exists (select from task t where t.session = s.id)
                 returning id, session, number, finished_at
             ), attempted as (
                 insert into attempt (task, attempt, session, worker, lease, outcome, turns, claimed_at, ended_at)
                 select id, 1, session, id, id, 'completed', 0, finished_at, finished_at from made
             ), notified as (
                 insert into notification (task, session, state, read_at)
                 select id, session, 'completed', finished_at from made
             )
             insert into event (session, seq, task, kind)
             select session, 2 * number - 1 + k, id, case k when 0 then 'spawned' else 'completed' end
             from made cross join generate_series(0, 1) k",
            PER_SESSION
        )
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        // Fresh statistics and a visibility map, as a database that grew over months would have them.
        sqlx::query("vacuum (analyze)").execute(&self.pool).await?;
        Ok(i64::try_from(made.rows_affected() / 2).unwrap_or(i64::MAX))
    }

    /// The sessions that [`Store::add_history`] made, and the number of tasks in each.
    pub async fn history_sessions(&self) -> Result<(Vec<adjutant_agent::SessionId>, i32)> {
        let ids = sqlx::query_scalar!("select id from session where tenant = 'history' order by id")
            .fetch_all(&self.pool)
            .await?;
        Ok((ids.into_iter().map(adjutant_agent::SessionId).collect(), 100))
    }
}
