use adjutant_agent::{LeaseId, TaskId};
use uuid::Uuid;

use crate::text::storable;
use crate::{Result, Store, Worker};

/// What a model has said so far of an answer that is not stored yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    pub slot: i32,
    pub task: TaskId,
    pub lease: LeaseId,
    /// Which of the task's answers it is the beginning of.
    pub answer: i32,
    pub text: String,
}

impl Worker {
    /// Keeps drafts for whoever cancels their tasks, and drops those of leases that are done with theirs. A draft whose lease
    /// is lost is not kept, and one whose answer is stored meanwhile does not count.
    pub async fn draft(&self, drafts: Vec<Draft>, gone: &[LeaseId]) -> Result<()> {
        let gone: Vec<Uuid> = gone.iter().map(|lease| lease.0).collect();
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
                    &gone
                )
                .execute(connection)
                .await
            })
            .await?;
        Ok(())
    }
}

impl Store {
    /// Drops drafts that lost workers left behind.
    pub async fn forget_drafts(&self) -> Result<()> {
        self.call(async |connection| {
            sqlx::query!("select delete_stale_drafts_1()").execute(connection).await
        })
        .await?;
        Ok(())
    }
}
