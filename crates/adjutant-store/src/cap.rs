use adjutant_agent::Refusal;

use crate::{NotifyTarget, Result, Store};

/// A larger cap is assumed to be a typing error.
pub(crate) const MAX_CAP: i32 = 10_000;

/// The use of the fleet's slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slots {
    /// The fleet-wide cap.
    pub cap: i64,
    /// The number of running tasks. After the cap was lowered it may be above the cap; then it only
    /// falls.
    pub used: i64,
}

/// What became of the cap of a config.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdoptedCap {
    /// Whether it was the first that was chosen for the database, and is the cap now.
    pub adopted: bool,
    /// The cap of the fleet.
    pub cap: i64,
}

impl Store {
    /// Sets the cap of a config, if nobody has chosen a cap for the database before.
    pub async fn adopt_cap(&self, cap: i32) -> Result<AdoptedCap> {
        let adopted = self
            .call(async |connection| {
                sqlx::query_as!(
                    AdoptedCap,
                    r#"select adopted as "adopted!", cap as "cap!" from adopt_cap_1($1)"#,
                    cap
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        if adopted.adopted {
            self.worker_notifier.notify_queue(NotifyTarget::All);
        }
        Ok(adopted)
    }

    /// Sets the fleet-wide cap, for all workers at once. At 0 no task starts.
    pub async fn set_cap(&self, cap: i32) -> Result<()> {
        if !(0..=MAX_CAP).contains(&cap) {
            return Err(
                Refusal::invalid("cap", format_args!("must be 0 to {MAX_CAP}, not {cap}")).into()
            );
        }
        let actor = self.audited()?;
        self.call(async |connection| {
            sqlx::query!("select set_cap_as_1($1, $2)", cap, actor).execute(connection).await
        })
        .await?;
        self.worker_notifier.notify_queue(NotifyTarget::All);
        Ok(())
    }

    /// Counts the open and the used slots.
    pub async fn slots(&self) -> Result<Slots> {
        let row = self
            .call(async |connection| {
                sqlx::query!(
                    r#"select count(*) filter (where open) as "cap!", count(task) as "used!" from slot"#
                )
                .fetch_one(connection)
                .await
            })
            .await?;
        Ok(Slots { cap: row.cap, used: row.used })
    }
}
