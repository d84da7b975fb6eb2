use adjutant_agent::{SessionId, TaskNumber};

use crate::{Result, Store};

/// A page of a task's result. The pages that follow `next_offset` make up the whole text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultPage {
    pub text: String,
    /// None on the last page.
    pub next_offset: Option<i64>,
    /// The length of the whole text.
    pub result_chars: i64,
}

impl Store {
    /// Reads `limit` characters from `offset` of an ended task's result, collected or not; of its
    /// partial result if it did not complete.
    pub async fn read_result(
        &self,
        session: SessionId,
        number: TaskNumber,
        offset: i64,
        limit: i64,
    ) -> Result<ResultPage> {
        // Larger than any stored text.
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
