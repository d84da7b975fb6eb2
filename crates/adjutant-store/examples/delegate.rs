//! Delegates one task and does it: `adjutant postgres --throwaway -- cargo run --package adjutant-store --example delegate`

use adjutant_store::{NewSession, NewTask, NewWorker, Store};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("DATABASE_URL")?;
    Store::migrate(&url).await?;

    let store = Store::open(&url, 10).await?;
    let session = NewSession { tenant: "me".into(), name: "review".into(), ..Default::default() };
    let session = store.create_session(&session).await?;
    let task =
        NewTask { agent: "researcher".into(), assignment: "Find the leak.".into(), ..Default::default() };
    let spawned = store.spawn(session.id, &[task], None).await?; // durable when this returns

    let worker = store.register(&NewWorker { name: "w1".into(), ..Default::default() }).await?;
    for claim in worker.claim(5).await? {
        // never more than the fleet's cap in all
        println!("{} is asked: {}", claim.assignment.agent, claim.assignment.text);
        claim.lease.complete("It is in the cache.".into(), None).write().await?;
    }
    let collected = store.collect(session.id, spawned[0].number, None).await?;
    println!("{} {}: {:?}", spawned[0].number, collected.status.state, collected.outcome);
    Ok(())
}
