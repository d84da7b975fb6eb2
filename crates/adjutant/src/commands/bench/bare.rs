//! From an insert to its claim with nothing but PostgreSQL: the limit of how soon a task can start.

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
