//! Each example is compiled into this binary and run as it is.

use serde_json::json;

use crate::support::world::World;

macro_rules! example {
    ($name:ident, $path:literal) => {
        #[expect(
            dead_code,
            reason = "an example's main is for `cargo run`, and it uses only a part of the module setup"
        )]
        #[path = $path]
        mod $name;
    };
}

example!(hooks, "../../../crates/adjutant/examples/hooks.rs");
example!(operations, "../../../crates/adjutant/examples/operations.rs");
example!(rust_tool, "../../../crates/adjutant/examples/rust_tool.rs");
example!(subscriber, "../../../crates/adjutant/examples/subscriber.rs");

#[tokio::test(flavor = "multi_thread")]
async fn the_example_of_a_rust_tool_runs() {
    let result = rust_tool::run(&World::empty_database().await).await.unwrap();
    assert_eq!(result, "Order 7 is on its way.");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_of_the_operations_runs() {
    let collected = operations::run(&World::empty_database().await).await.unwrap();
    assert_eq!(
        (&collected["status"], &collected["result"]),
        (&json!("completed"), &json!("Nothing is wrong."))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_of_hooks_runs() {
    let lines = hooks::run(&World::empty_database().await).await.unwrap();
    assert_eq!(lines, ["clerk starts t_01, attempt 1", "clerk stops t_01: Completed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_of_a_subscriber_runs() {
    use subscriber::Delegation::{Completed, Started};
    let events = subscriber::run(&World::empty_database().await).await.unwrap();
    let [
        Started { correlation, agent, task, traceparent },
        Completed { correlation: same, result, error, .. },
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!((agent.as_str(), task.as_str(), correlation), ("clerk", "Tidy up.", same));
    assert!(traceparent.as_deref().is_some_and(|parent| parent.starts_with("00-0af7651916cd43dd")));
    assert_eq!((result.as_deref(), error), (Some("Done."), &None));
}
