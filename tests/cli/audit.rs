//! `adjutant keys` with grants, and `adjutant audit`.

use std::process::{Command, Stdio};

use anyhow::Result;
use serde_json::{Value, json};

use crate::support::process::{assert_says, refused, succeed};
use crate::support::world::World;

fn adjutant(world: &World, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_adjutant"));
    command.args(arguments).args(["--database-url", world.url()]);
    command.env("USER", "somebody-else").stdin(Stdio::null());
    command
}

fn answer(world: &World, arguments: &[&str]) -> Result<Value> {
    let output = succeed(adjutant(world, arguments).arg("--json"))?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_created_with_grants_and_listed_with_them() -> Result<()> {
    let world = World::new().await;
    let grants = [
        "--tools",
        "fetch, files_*",
        "--models",
        "main",
        "--agents",
        "research*",
        "--pools",
        "gpu",
    ];
    let made = answer(&world, &[&["keys", "create", "crawler"][..], &grants].concat())?;
    let expected = json!({
        "tools": ["fetch", "files_*"], "models": ["main"], "agents": ["research*"], "pools": ["gpu"],
    });
    assert_eq!(made["grants"], expected);
    let key = world.store.key(made["secret"].as_str().unwrap()).await?.unwrap();
    assert_eq!(serde_json::to_value(&key.grants)?, expected);
    let plain = answer(&world, &["keys", "create", "laptop"])?;
    assert_eq!(plain["grants"], Value::Null, "everything");
    let listed = succeed(&mut adjutant(&world, &["keys", "list"]))?;
    let listed = String::from_utf8(listed.stdout)?;
    assert_says(&listed, &["GRANTS", "tools=fetch,files_*", "models=main", "pools=gpu"]);
    let long = "x".repeat(129);
    let said = refused(&mut adjutant(&world, &["keys", "create", "x", "--tools", &long]))?;
    assert_says(&said, &["tools[0]", "1 to 128 characters"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_on_the_database_are_audited_with_the_user_of_the_system() -> Result<()> {
    let world = World::new().await;
    let made = answer(&world, &["keys", "create", "ci", "--tenant", "acme"])?;
    answer(&world, &["keys", "revoke", made["id"].as_str().unwrap()])?;
    answer(&world, &["limits", "--cap", "7"])?;
    let user = String::from_utf8(Command::new("id").arg("-un").output()?.stdout)?;
    let audit = answer(&world, &["audit"])?;
    let entries = audit["entries"].as_array().unwrap();
    let actions: Vec<&Value> = entries.iter().map(|entry| &entry["action"]).collect();
    assert_eq!(actions, ["limits.cap", "key.revoke", "key.create"]);
    for entry in entries {
        assert_eq!((&entry["source"], &entry["actor"]), (&json!("cli"), &json!(user.trim())));
        assert_eq!((&entry["key"], &entry["address"]), (&Value::Null, &Value::Null));
    }
    assert_eq!(entries[0]["after"], json!({"cap": 7}));
    assert!(!audit.to_string().contains(made["secret"].as_str().unwrap()));
    for (filter, count) in [
        (["--tenant", "acme"], 2),
        (["--action", "limits.cap"], 1),
        (["--since", "1h"], 3),
        (["--since", "2100-01-01"], 0),
        (["--limit", "1"], 1),
    ] {
        let found = answer(&world, &[&["audit"][..], &filter].concat())?;
        assert_eq!(found["entries"].as_array().unwrap().len(), count, "{filter:?}");
    }
    let shown = succeed(&mut adjutant(&world, &["audit"]))?;
    assert_says(&String::from_utf8(shown.stdout)?, &["limits.cap", "cap=7", "key.revoke", "acme"]);
    Ok(())
}
