//! What a worker tells everyone about: the agents of its config, and its tools.

use adjutant_script::{Script, When, text};

use super::workplace::{CLERK, Workplace, to};
use crate::fleet::process::WorkerProcess;
use crate::world::until;

fn markdown(prompt: &str) -> String {
    format!("---\nname: scribe\ndescription: Writes\ntools: Read\nmodel: openai\n---\n\n{prompt}\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_whose_file_changes_is_the_new_one_for_new_tasks_and_the_old_one_for_those_that_run() {
    let script = Script::new()
        .on(When::system("You write prose.").and(When::assignment("at first")))
        .then(text("I wait.").and_call("held", serde_json::json!({})))
        .then(text("Prose."))
        .on(When::system("You write verse."))
        .then(text("Verse."));
    let place = Workplace::with(script, |_| String::new()).await;
    let config = std::fs::read_to_string(place.file("adjutant.toml")).unwrap();
    std::fs::write(place.file("adjutant.toml"), format!("agents_dir = \"agents\"\n{config}")).unwrap();
    std::fs::create_dir(place.file("agents")).unwrap();
    let prose = markdown("You write prose.").replace("tools: Read", "tools: held");
    std::fs::write(place.file("agents/scribe.md"), prose).unwrap();
    let worker = WorkerProcess::start(place.work().args(["--lease-seconds", "30"]));
    let session = place.session("openai").await;
    let store = &place.world.store;
    assert_eq!(store.agent(session, "scribe").await.unwrap().version, 1);
    let old = place.delegate(session, to("scribe", "Write at first.")).await;
    until("it is in the middle", async || place.tools.calls_of("held").len() == 1).await;

    std::fs::write(place.file("agents/scribe.md"), markdown("You write verse.")).unwrap();
    until("the change is known", async || store.agent(session, "scribe").await.unwrap().version == 2).await;
    let new = place.delegate(session, to("scribe", "Write again.")).await;
    place.done(new).await.assert_completed("Verse.");
    place.tools.let_go();
    let old = place.done(old).await;
    old.assert_completed("Prose.");
    assert_eq!(old.requests.len(), 2);
    drop(worker);
    place.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agents_and_tools_of_a_config_are_known_as_soon_as_its_worker_works() {
    let place = Workplace::new(Script::new().on(When::any()).then(text("Here."))).await;
    let _worker = place.worker();
    let store = &place.world.store;
    let session = place.session("openai").await;
    let agents = store.agents(session).await.unwrap();
    assert_eq!(agents.iter().map(|agent| agent.definition.name.as_str()).collect::<Vec<_>>(), [CLERK]);
    let names = ["held", "divine", "shared_context", "read_file", "subagent", "fetch"].map(str::to_owned);
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
    place.close().await;
}
