use adjutant_agent::Refusal;

use crate::{NotifyTarget, Result, Store};

/// More is a mistake in typing.
const MAX_CAP: i32 = 10_000;

/// How the fleet's slots stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slots {
    /// The fleet-wide cap.
    pub cap: i64,
    /// Tasks running now; after a shrink it may be above the cap, and only falls.
    pub used: i64,
}

impl Store {
    /// Changes the fleet-wide cap, at once and for everyone. At 0 nothing new starts.
    pub async fn set_cap(&self, cap: i32) -> Result<()> {
        if !(0..=MAX_CAP).contains(&cap) {
            return Err(
                Refusal::invalid("cap", format_args!("must be 0 to {MAX_CAP}, not {cap}")).into()
            );
        }
        self.call(async |connection| {
            sqlx::query!("select set_cap_1($1)", cap).execute(connection).await
        })
        .await?;
        self.notices.queued(NotifyTarget::All);
        Ok(())
    }

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
