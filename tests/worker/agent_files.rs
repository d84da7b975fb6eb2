//! The agents and tools that a worker publishes.

use adjutant_script::{Script, When, text};

use crate::support::fleet::{CLERK, Fleet, to};
use crate::support::worker_process::WorkerProcess;
use crate::support::world::until;

fn markdown(prompt: &str) -> String {
    format!("---\nname: scribe\ndescription: Writes\ntools: Read\nmodel: openai\n---\n\n{prompt}\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_agent_file_applies_to_new_tasks_and_not_to_running_ones() {
    let script = Script::new()
        .on(When::system("You write prose.").and(When::assignment("at first")))
        .then(text("I wait.").and_call("held", serde_json::json!({})))
        .then(text("Prose."))
        .on(When::system("You write verse."))
        .then(text("Verse."));
    let fleet = Fleet::with(script, |_| String::new()).await;
    let config = std::fs::read_to_string(fleet.file("adjutant.toml")).unwrap();
    std::fs::write(fleet.file("adjutant.toml"), format!("agents_dir = \"agents\"\n{config}"))
        .unwrap();
    std::fs::create_dir(fleet.file("agents")).unwrap();
    let prose = markdown("You write prose.").replace("tools: Read", "tools: held");
    std::fs::write(fleet.file("agents/scribe.md"), prose).unwrap();
    let worker = WorkerProcess::start(fleet.work().args(["--lease-seconds", "30"]));
    let session = fleet.session("openai").await;
    let store = &fleet.world.store;
    assert_eq!(store.agent(session, "scribe").await.unwrap().version, 1);
    let old = fleet.delegate(session, to("scribe", "Write at first.")).await;
    until("it is in the middle", async || fleet.tools.calls_of("held").len() == 1).await;

    std::fs::write(fleet.file("agents/scribe.md"), markdown("You write verse.")).unwrap();
    until("the change is known", async || {
        store.agent(session, "scribe").await.unwrap().version == 2
    })
    .await;
    let new = fleet.delegate(session, to("scribe", "Write again.")).await;
    fleet.done(new).await.assert_completed("Verse.");
    fleet.tools.let_go();
    let old = fleet.done(old).await;
    old.assert_completed("Prose.");
    assert_eq!(old.requests.len(), 2);
    drop(worker);
    fleet.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_publishes_the_agents_and_tools_of_its_config_at_start() {
    let fleet = Fleet::new(Script::new().on(When::any()).then(text("Here."))).await;
    let _worker = fleet.worker();
    let store = &fleet.world.store;
    let session = fleet.session("openai").await;
    let agents = store.agents(session).await.unwrap();
    assert_eq!(
        agents.iter().map(|agent| agent.definition.name.as_str()).collect::<Vec<_>>(),
        [CLERK]
    );
    let names =
        ["held", "divine", "shared_context", "read_file", "subagent", "fetch"].map(str::to_owned);
    assert_eq!(store.unknown_tools(&names).await.unwrap(), ["divine", "subagent"]);
    let tools = store.tools().await.unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "broken",
            "fetch",
            "held",
            "list_files",
            "long",
            "lookup",
            "meet",
            "pay",
            "read_file",
            "search_files",
            "shared_context"
        ]
    );
    fleet.close().await;
}
