use adjutant_agent::{LeaseId, TaskId};
use uuid::Uuid;

use crate::text::storable;
use crate::{Result, Store, Worker};

/// The text so far of an answer that is still streaming.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    pub slot: i32,
    pub task: TaskId,
    pub lease: LeaseId,
    /// The number of the answer among the task's answers.
    pub answer: i32,
    pub text: String,
}

impl Worker {
    /// Saves drafts, so that a cancel can return them, and deletes those of the leases in
    /// `obsolete`. A draft whose lease is lost is not saved; one whose answer is stored by now is
    /// ignored.
    pub async fn save_drafts(&self, drafts: Vec<Draft>, obsolete: &[LeaseId]) -> Result<()> {
        let obsolete: Vec<Uuid> = obsolete.iter().map(|lease| lease.0).collect();
        let slots: Vec<i32> = drafts.iter().map(|draft| draft.slot).collect();
        let tasks: Vec<Uuid> = drafts.iter().map(|draft| draft.task.0).collect();
        let leases: Vec<Uuid> = drafts.iter().map(|draft| draft.lease.0).collect();
        let answers: Vec<i32> = drafts.iter().map(|draft| draft.answer).collect();
        let texts: Vec<String> = drafts.into_iter().map(|draft| storable(draft.text)).collect();
        self.calls
            .call(async |connection| {
                sqlx::query!(
                    "select save_drafts_1($1, $2, $3, $4, $5, $6)",
                    &slots,
                    &tasks,
                    &leases,
                    &answers,
                    &texts,
                    &obsolete
                )
                .execute(connection)
                .await
            })
            .await?;
        Ok(())
    }
}

impl Store {
    /// Deletes the drafts of leases that no longer exist.
    pub async fn delete_stale_drafts(&self) -> Result<()> {
        self.call(async |connection| {
            sqlx::query!("select delete_stale_drafts_1()").execute(connection).await
        })
        .await?;
        Ok(())
    }
}
