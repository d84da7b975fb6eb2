//! The processes that publish the agents of a config.

use adjutant_agent::{AgentDefinition, ErrorCode};
use adjutant_store::Publisher;

use crate::store::agents::{agent, named, names};
use crate::support::world::{World, assert_refused};

/// Publishers of the config of this name.
fn publishers<const N: usize>(config: &str) -> [Publisher; N] {
    std::array::from_fn(|number| Publisher::new(config, format!("{config}-{number}")))
}

async fn last_seen(world: &World, process: &str, ago: &str) {
    let seen = "update publisher set seen_at = now() - $2::interval where name = $1";
    sqlx::query(seen).bind(process).bind(ago).execute(&world.sql).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_takes_away_only_the_agents_that_it_published_itself() {
    let world = World::new().await;
    let (session, [one, other]) = (world.session().await, publishers("default"));
    let publish = async |publisher: &Publisher, agents: &[AgentDefinition]| {
        world.store.publish_agents_as(publisher, agents).await.unwrap();
    };
    publish(&one, &[agent("a", "one"), agent("b", "one")]).await;
    publish(&other, &[agent("c", "one")]).await;
    assert_eq!(names(&world, session).await, named(&[("a", 1), ("b", 1), ("c", 1)]));
    publish(&one, &[agent("b", "one")]).await;
    assert_eq!(names(&world, session).await, named(&[("b", 1), ("c", 1)]));
    let [of_another_config] = publishers("shop");
    publish(&of_another_config, &[agent("d", "one")]).await;
    publish(&of_another_config, &[]).await;
    assert_eq!(names(&world, session).await, named(&[("b", 1), ("c", 1)]));
    world.store.stop_publishing(&one).await.unwrap();
    assert_eq!(names(&world, session).await, named(&[("c", 1)]), "the other one runs");
    world.store.stop_publishing(&other).await.unwrap();
    assert_eq!(names(&world, session).await, named(&[("c", 1)]), "none runs: tasks wait");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_releases_of_a_config_run_side_by_side_and_the_newer_list_is_in_effect() {
    let world = World::new().await;
    let (session, [old, new, restarted, rolled_back]) = (world.session().await, publishers("shop"));
    let releases =
        [[agent("a", "old"), agent("gone", "one")], [agent("a", "new"), agent("added", "one")]];
    let prompt = async || world.store.agent(session, "a").await.unwrap().definition;
    world.store.publish_agents_as(&old, &releases[0]).await.unwrap();
    world.store.publish_agents_as(&new, &releases[1]).await.unwrap();
    assert_eq!(prompt().await, agent("a", "new"));
    world.store.publish_agents_as(&restarted, &releases[0]).await.unwrap();
    assert_eq!(prompt().await, agent("a", "new"), "a restart of the old release is no change");
    assert_eq!(names(&world, session).await, named(&[("a", 2), ("added", 1), ("gone", 1)]));
    world.store.stop_publishing(&old).await.unwrap();
    world.store.stop_publishing(&restarted).await.unwrap();
    assert_eq!(names(&world, session).await, named(&[("a", 2), ("added", 1)]));

    world.store.publish_agents_as(&rolled_back, &releases[0]).await.unwrap();
    assert_eq!(prompt().await, agent("a", "new"), "the newer release still runs");
    world.store.stop_publishing(&new).await.unwrap();
    assert_eq!(prompt().await, agent("a", "old"), "rolled back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_died_loses_its_agents_to_those_that_report_but_not_after_an_outage() {
    let world = World::new().await;
    let (session, [dead, alive]) = (world.session().await, publishers("shop"));
    world.store.publish_agents_as(&dead, &[agent("a", "one")]).await.unwrap();
    world.store.publish_agents_as(&alive, &[agent("b", "one")]).await.unwrap();
    for process in ["shop-0", "shop-1"] {
        last_seen(&world, process, "3 minutes").await;
    }
    assert!(world.store.keep_published(&alive).await.unwrap());
    assert_eq!(names(&world, session).await, named(&[("a", 1), ("b", 1)]), "both were silent");
    assert!(world.store.keep_published(&alive).await.unwrap());
    assert_eq!(names(&world, session).await, named(&[("b", 1)]));
    assert!(world.store.keep_published(&dead).await.unwrap());
    assert!(world.store.keep_published(&dead).await.unwrap());
    assert_eq!(names(&world, session).await, named(&[("a", 1), ("b", 1)]), "it is back");
    world.store.stop_publishing(&dead).await.unwrap();
    assert!(!world.store.keep_published(&dead).await.unwrap(), "it has to publish again");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_configs_cannot_have_an_agent_of_one_name_while_both_run() {
    let world = World::new().await;
    let (session, [shop], [bank]) = (world.session().await, publishers("shop"), publishers("bank"));
    world.store.publish_agents_as(&shop, &[agent("a", "of the shop")]).await.unwrap();
    let refused = world.store.publish_agents_as(&bank, &[agent("a", "of the bank")]).await;
    let said = assert_refused(refused, ErrorCode::AgentAlreadyExists);
    for word in ["agent a ", "\"bank\"", "\"shop\"", "shop-0"] {
        assert!(said.contains(word), "{word} in {said}");
    }
    let prompt = async || world.store.agent(session, "a").await.unwrap().definition;
    assert_eq!(prompt().await, agent("a", "of the shop"));

    // The shop's process freezes, the bank takes the name over, and the shop's wakes up.
    last_seen(&world, "shop-0", "3 minutes").await;
    world.store.publish_agents_as(&bank, &[agent("a", "of the bank")]).await.unwrap();
    assert_eq!(prompt().await, agent("a", "of the bank"));
    let [second] = publishers("shop");
    last_seen(&world, "shop-0", "0 s").await;
    world.store.publish_agents_as(&second, &[agent("b", "one")]).await.unwrap();
    assert_eq!(prompt().await, agent("a", "of the bank"), "it stays with the one that has it");
    let configs = world.store.published_configs().await.unwrap();
    let shown: Vec<_> = configs
        .iter()
        .map(|config| (config.name.as_str(), config.agents.join(","), config.processes))
        .collect();
    assert_eq!(shown, [("bank", "a".to_owned(), 1), ("shop", "b".to_owned(), 2)]);
}
