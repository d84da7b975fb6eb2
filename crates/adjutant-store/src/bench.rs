//! Support for `adjutant bench`: generated history, a baseline ("yardstick") of plain SQL, and
//! figures.

use std::time::Duration;

use adjutant_agent::SessionId;
use chrono::{DateTime, Utc};
use sqlx::postgres::{PgListener, PgPoolOptions};
use sqlx::{Connection, PgConnection};

use crate::store::{connect, options};
use crate::time_limits::TimeLimits;
use crate::{Result, Store};

/// The number of tasks per generated session.
const PER_SESSION: i64 = 100;

impl Store {
    /// Adds sessions of 100 finished tasks each, with 1 KB of assignment and result, until there
    /// are `tasks` in total, to measure the cost of a large history. Returns the number of tasks
    /// added.
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
                 select i.id, s.id, i.number, i.id, 1, 'history', repeat(md5(i.id::text), 32),
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
        // Statistics and a visibility map, as in a database that grew over months.
        sqlx::query("vacuum (analyze)").execute(&self.pool).await?;
        Ok(i64::try_from(made.rows_affected() / 2).unwrap_or(i64::MAX))
    }

    /// The sessions that [`Store::add_history`] added, and the number of tasks in each.
    pub async fn history_sessions(&self) -> Result<(Vec<SessionId>, i32)> {
        let ids =
            sqlx::query_scalar!("select id from session where tenant = 'history' order by id")
                .fetch_all(&self.pool)
                .await?;
        Ok((ids.into_iter().map(SessionId).collect(), 100))
    }
}

impl Store {
    /// Recreates the yardstick: a table with the columns of `task` and `rows` rows to claim.
    pub async fn fill_yardstick(&self, rows: i64) -> Result<()> {
        self.drop_yardstick().await?;
        let script = [
            "create table yardstick (like task including defaults)",
            // Text instead of enums and no constraints: it uses a state that tasks do not have.
            "alter table yardstick alter state type text, alter waiting_for type text, alter failure type text,
                 alter on_worker_loss type text",
            "alter table yardstick add primary key (id)",
            "create index yardstick_next on yardstick (number) where state = 'queued'",
        ];
        for statement in script {
            sqlx::query(statement).execute(&self.pool).await?;
        }
        sqlx::query(
            "insert into yardstick (id, session, number, root, depth, agent, assignment, state)
             select id, 1, n, id, 1, 'bench', repeat('0123456789abcdef', 64), 'queued'
             from (select gen_random_uuid() as id, n from generate_series(1, $1) n) made",
        )
        .bind(rows)
        .execute(&self.pool)
        .await?;
        sqlx::query("vacuum (analyze) yardstick").execute(&self.pool).await?;
        self.checkpoint().await
    }

    /// Drops the yardstick.
    pub async fn drop_yardstick(&self) -> Result<()> {
        sqlx::query("drop table if exists yardstick").execute(&self.pool).await?;
        Ok(())
    }

    /// Runs CHECKPOINT, so that the next measurement does not pay for the writes of the last.
    pub async fn checkpoint(&self) -> Result<()> {
        sqlx::query("checkpoint").execute(&self.pool).await?;
        Ok(())
    }

    /// Whether there are unfinished tasks.
    pub async fn has_unfinished(&self) -> Result<bool> {
        let has = sqlx::query_scalar!(
            r#"select exists (select from task where finished_at is null) as "has!""#
        );
        Ok(has.fetch_one(&self.pool).await?)
    }

    /// The number of tasks that ended in this time.
    pub async fn finished_between(&self, from: DateTime<Utc>, to: DateTime<Utc>) -> Result<i64> {
        let count = sqlx::query_scalar!(
            r#"select count(*) as "count!" from task where finished_at >= $1 and finished_at < $2"#,
            from,
            to
        );
        Ok(count.fetch_one(&self.pool).await?)
    }

    /// The time of the last query of each connection to this database, by process id, except for
    /// the caller's.
    pub async fn last_queries(&self) -> Result<Vec<(i32, DateTime<Utc>)>> {
        // `call` reuses the connection that was used last, so that it is always the same one.
        let rows = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select pid as "pid!", query_start as "at!"
                       from pg_stat_activity
                       where datname = current_database() and backend_type = 'client backend'
                           and query_start is not null and pid <> pg_backend_pid()"#
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        Ok(rows.into_iter().map(|row| (row.pid, row.at)).collect())
    }

    /// Deletes all unfinished tasks.
    pub async fn delete_unfinished(&self) -> Result<()> {
        sqlx::query!("truncate queue").execute(&self.pool).await?;
        sqlx::query!("delete from task where finished_at is null").execute(&self.pool).await?;
        sqlx::query("vacuum (analyze) session, task, queue").execute(&self.pool).await?;
        Ok(())
    }
}

/// The baseline of a task's start: insert, NOTIFY, LISTEN and a plain claim, each on an idle
/// connection.
pub struct Bare {
    spawner: PgConnection,
    listener: PgListener,
    worker: PgConnection,
}

impl Bare {
    /// Connects, and truncates the yardstick, which must exist.
    pub async fn connect(url: &str) -> Result<Self> {
        let mut spawner = PgConnection::connect_with(&options(url)?).await?;
        sqlx::query("truncate yardstick").execute(&mut spawner).await?;
        let pool = PgPoolOptions::new().max_connections(1);
        let pool = connect(url, pool, TimeLimits::LISTEN).await?;
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.listen("yardstick").await?;
        Ok(Self { spawner, listener, worker: PgConnection::connect_with(&options(url)?).await? })
    }

    pub async fn insert_and_claim(&mut self) -> Result<()> {
        sqlx::query(
            "with made as (
                 insert into yardstick (id, session, number, root, depth, agent, assignment, state)
                 values (gen_random_uuid(), 1, 1, gen_random_uuid(), 1, 'bench', $1, 'queued')
                 returning id
             )
             select pg_notify('yardstick', '') from made",
        )
        .bind("0123456789abcdef".repeat(64))
        .execute(&mut self.spawner)
        .await?;
        self.listener.recv().await?;
        sqlx::query(
            "update yardstick set state = 'running', attempt = attempt + 1, started_at = now()
             where id = (select id from yardstick where state = 'queued' order by number limit 1 for update skip locked)
             returning id, assignment",
        )
        .fetch_one(&mut self.worker)
        .await?;
        Ok(())
    }
}

/// An ended attempt.
#[derive(Debug, Clone, Copy)]
pub struct EndedAttempt {
    pub completed: bool,
    /// The time from the claim to the end.
    pub time: Duration,
}

impl Store {
    /// The ended attempts of these sessions' tasks.
    pub async fn attempts(&self, sessions: &[SessionId]) -> Result<Vec<EndedAttempt>> {
        let sessions: Vec<i64> = sessions.iter().map(|session| session.0).collect();
        let rows: Vec<(bool, f64)> = sqlx::query_as(
            "select outcome = 'completed', extract(epoch from ended_at - claimed_at)::double precision
             from attempt
             where session = any($1)",
        )
        .bind(sessions)
        .fetch_all(&self.pool)
        .await?;
        let ended = |(completed, seconds)| {
            let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
            EndedAttempt { completed, time }
        };
        Ok(rows.into_iter().map(ended).collect())
    }

    /// The number of transactions with an id, which are those that wrote, since the cluster was
    /// created.
    pub async fn commits(&self) -> Result<i64> {
        let next =
            sqlx::query_scalar("select pg_snapshot_xmax(pg_current_snapshot())::text::bigint");
        Ok(next.fetch_one(&self.pool).await?)
    }

    /// The number of transactions in the statistics. A connection reports its own when it is
    /// closed, at the latest.
    pub async fn transactions(&self) -> Result<i64> {
        let count = sqlx::query_scalar(
            "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()",
        );
        Ok(count.fetch_one(&self.pool).await?)
    }
}

/// The baseline of a checkpoint: single inserts into a table like `turn`, on one connection.
pub struct Insert {
    connection: PgConnection,
    rows: i32,
}

impl Insert {
    pub async fn connect(url: &str) -> Result<Self> {
        let mut connection = PgConnection::connect_with(&options(url)?).await?;
        let script = [
            "drop table if exists turn_yardstick",
            "create table turn_yardstick (like turn including defaults including constraints)",
            "alter table turn_yardstick add primary key (task, number, at)",
        ];
        for statement in script {
            sqlx::query(statement).execute(&mut connection).await?;
        }
        Ok(Self { connection, rows: 0 })
    }

    /// Inserts and commits one turn with this answer.
    pub async fn turn(&mut self, text: &str) -> Result<()> {
        self.rows += 1;
        let answer =
            serde_json::json!({"content": [{"type": "text", "text": text}], "stop": "max_tokens"});
        sqlx::query(
            "insert into turn_yardstick (
                 task, number, attempt, kind, message, text, model, input_tokens, output_tokens, duration_ms
             )
             values ('00000000-0000-0000-0000-000000000000', $1, 1, 'turn', $2, $3, 'script', 100, 100, 2000)",
        )
        .bind(self.rows)
        .bind(answer)
        .bind(text)
        .execute(&mut self.connection)
        .await?;
        Ok(())
    }
}
