//! The baseline for the start of a task: insert, NOTIFY and claim with plain PostgreSQL.

use std::time::Instant;

use adjutant_store::Bare;

use super::queue::IDLE;
use super::report::Quantiles;

pub async fn start(url: &str, samples: usize) -> anyhow::Result<Quantiles> {
    let mut bare = Bare::connect(url).await?;
    let mut times = Vec::new();
    for _ in 0..samples {
        tokio::time::sleep(IDLE).await;
        let began = Instant::now();
        bare.insert_and_claim().await?;
        times.push(began.elapsed());
    }
    Ok(Quantiles::of(times))
}
