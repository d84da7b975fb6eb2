use adjutant_agent::{ErrorCode, Refusal, SessionId, TaskNumber, TaskView};
use futures::future::BoxFuture;
use sqlx::types::Json;

use crate::{Error, Result, Store};

/// The tasks of a session that orchestrators spawned, most recently active first, with details but
/// without results.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionTasks {
    /// The number of all of them.
    pub count: i64,
    pub tasks: Vec<TaskView>,
}

/// Parses a word from the database. Constraints admit no other words.
pub(crate) fn known<T: std::str::FromStr<Err = adjutant_agent::UnknownWord>>(
    word: &str,
) -> Result<T> {
    word.parse().map_err(|error: adjutant_agent::UnknownWord| {
        Error::Unexpected(sqlx::Error::Decode(error.into()))
    })
}

impl Store {
    /// The status of a task, collected or not, with its queue position. Concurrent calls share a
    /// round trip.
    pub async fn status(&self, session: SessionId, number: TaskNumber) -> Result<TaskView> {
        let store = self.clone();
        let read_all = move |tasks| Box::pin(store.clone().status_of_all(tasks)) as BoxFuture<_>;
        match self.status_calls.submit((session, number), read_all).await? {
            Some(task) => Ok(task),
            None => Err(self.unknown_task(session, number).await),
        }
    }

    /// Reads all of them in one call; none for a task that does not exist.
    async fn status_of_all(
        self,
        tasks: Vec<(SessionId, TaskNumber)>,
    ) -> Result<Vec<Option<TaskView>>> {
        let mut found: Vec<Option<TaskView>> = tasks.iter().map(|_| None).collect();
        let (sessions, numbers): (Vec<i64>, Vec<i32>) =
            tasks.into_iter().map(|(session, number)| (session.0, number.0)).unzip();
        let rows = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select place as "place!", task as "task!: Json<TaskView>" from status_1($1, $2)"#,
                    &sessions,
                    &numbers,
                )
                .fetch_all(connection)
                .await
            })
            .await?;
        for row in rows {
            let place = usize::try_from(row.place - 1).ok();
            if let Some(place) = place.and_then(|place| found.get_mut(place)) {
                *place = Some(row.task.0);
            }
        }
        Ok(found)
    }

    /// Finds out whether the task or its session does not exist.
    async fn unknown_task(&self, session: SessionId, number: TaskNumber) -> Error {
        let refused = self
            .call(async |connection| {
                sqlx::query!("select refuse_unknown_task_1($1, $2)", session.0, number.0)
                    .execute(connection)
                    .await
            })
            .await;
        refused.err().unwrap_or_else(|| not_found(number).into())
    }

    /// The status of a task, collected or not, with its queue position and details.
    pub async fn task_details(&self, session: SessionId, number: TaskNumber) -> Result<TaskView> {
        let found = self
            .call(async |connection| {
                sqlx::query_scalar!(
                    r#"select to_jsonb(v) as "task!: Json<TaskView>" from task_view v where session = $1 and number = $2"#,
                    session.0,
                    number.0
                )
                .fetch_optional(connection)
                .await
            })
            .await?;
        Ok(found.ok_or_else(|| not_found(number))?.0)
    }

    /// The tasks that orchestrators of a session spawned, at most `limit` of them.
    pub async fn session_tasks(&self, session: SessionId, limit: i64) -> Result<SessionTasks> {
        let row = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select
                        (
                            select count(*)
                            from session s
                            join task t on t.session = s.id
                            where s.id = $1 and t.parent is null
                        ) as "count!",
                        (
                            select coalesce(jsonb_agg(
                                to_jsonb(v) #- '{details, result}' order by v.last_activity_at desc, v.number
                            ), '[]')
                            from task_view v
                            where v.session = $1 and v.id in (
                                select s.id
                                from task_status s
                                where s.session = $1 and s.parent is null
                                order by s.last_activity_at desc, s.number
                                limit $2
                            )
                        ) as "tasks!: Json<Vec<TaskView>>""#,
                    session.0,
                    limit
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        Ok(SessionTasks { count: row.count, tasks: row.tasks.0 })
    }
}

fn not_found(number: TaskNumber) -> Refusal {
    Refusal::new(ErrorCode::TaskNotFound, format!("Task not found: {number}"))
}
