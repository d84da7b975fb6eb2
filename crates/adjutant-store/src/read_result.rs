use adjutant_agent::{SessionId, TaskNumber};

use crate::{Result, Store};

/// A part of what a task gave; pages that follow each other's `next_offset` give all of it, once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultPage {
    pub text: String,
    /// None at the end.
    pub next_offset: Option<i64>,
    /// Of the whole text.
    pub result_chars: i64,
}

impl Store {
    /// So many characters after an offset of the full text of a task that has ended, collected or not: its result, or what
    /// it had said last if it did not complete.
    pub async fn read_result(
        &self,
        session: SessionId,
        number: TaskNumber,
        offset: i64,
        limit: i64,
    ) -> Result<ResultPage> {
        // No text is as long as these numbers can be.
        let [start, length] =
            [offset, limit].map(|chars| i32::try_from(chars).unwrap_or(i32::MAX - 1));
        let row = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select page as "page!", chars as "chars!" from read_result_1($1, $2, $3, $4)"#,
                    session.0,
                    number.0,
                    start,
                    length
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        let result_chars = i64::from(row.chars);
        let end = offset.saturating_add(limit);
        Ok(ResultPage {
            text: row.page,
            next_offset: (end < result_chars).then_some(end),
            result_chars,
        })
    }
}
