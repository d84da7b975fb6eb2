//! The subagents in the prompt of an agent.

use adjutant_script::{Script, When, text};

use crate::support::fleet::Done;
use crate::worker::delegation::agents::{home_with, spawn, wait};

const TEAM: &str = r#"
[agents.lead]
description = "Leads"
system_prompt = "Your team:\n${_installed_subagents}\nThat is all."
may_delegate = true

[agents.lonely]
description = "Works alone"
system_prompt = "Your team:\n${_installed_subagents}\nThat is all."
"#;

/// The system prompts that a task's model was given, one for each call.
fn prompts(done: &Done) -> Vec<&str> {
    let bodies = done.requests.iter().map(|request| request.body.as_ref().unwrap());
    bodies.map(|body| body["messages"][0]["content"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn row_2_34_the_prompt_of_an_agent_names_the_subagents_that_it_may_call() {
    let script = Script::new()
        .on(When::assignment("Lead."))
        .then(spawn("lead", "Follow."))
        .then(wait("all"))
        .then(text("Led."))
        .on(When::any())
        .then(text("Done."));
    let fleet = home_with(script, 2, TEAM).await;
    let _worker = fleet.worker();
    let lead = fleet.done(fleet.give("openai", "lead", "Lead.").await).await;
    lead.assert_completed("Led.");
    let team = "Your team:\n- clerk: Does what it is told\n- hand: Works\n- head: Delegates\n- lead: Leads\n- lonely: Works alone\nThat is all.";
    let result = prompts(&lead);
    assert_eq!(result.len(), 3);
    assert!(result.iter().all(|prompt| prompt.starts_with(team)), "of every attempt: {result:?}");

    let follower = fleet.look_at(fleet.children(lead.task).await[0]).await;
    let lonely = fleet.done(fleet.give("openai", "lonely", "Sit.").await).await;
    for nobody in [prompts(&follower), prompts(&lonely)] {
        assert!(nobody[0].starts_with("Your team:\n(none)\nThat is all."), "{nobody:?}");
    }
    fleet.close().await;
}
