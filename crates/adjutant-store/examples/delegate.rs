//! Delegates a task to the researcher of a running `adjutant up` or `adjutant work`, and waits for
//! what comes back: `DATABASE_URL=... cargo run --package adjutant-store --example delegate`

use std::time::Duration;

use adjutant_agent::Outcome;
use adjutant_store::{NewDelegation, NewSession, NewTask, Operator, Store};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Store::open(&std::env::var("DATABASE_URL")?, 10).await?;
    let name = format!("review-{}", std::process::id());
    let session = NewSession {
        tenant: "me".into(),
        name,
        model: Some("script".into()),
        ..Default::default()
    };
    let session = store.create_session(&session).await?.id;

    let assignment = "Why is the checkout slow?".into();
    let task = NewTask { agent: "researcher".into(), assignment, ..Default::default() };
    let new = NewDelegation { task, timeout_s: Some(60.0), ..Default::default() };
    let spawned = store.delegate(session, &new, &Operator::default(), None).await?; // durable when this returns

    while !store.status(session, spawned.number).await?.state.is_terminal() {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let collected = store.collect(session, spawned.number, None).await?;
    match collected.outcome {
        Outcome::Completed { result, .. } => {
            println!("{} after {} turns: {result}", spawned.number, collected.task.turns_used)
        }
        Outcome::Failed { error, .. } => println!("{} failed: {error}", spawned.number),
        Outcome::Cancelled { .. } => println!("{} was cancelled", spawned.number),
    }
    Ok(())
}
