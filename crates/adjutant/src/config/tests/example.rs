use std::collections::BTreeSet;

use super::super::load::EXAMPLE;
use super::super::problem::Findings;
use super::super::schema::{all_settings, kind_of};
use super::super::tree::{Table, read_toml};
use super::*;

/// With every setting that is commented out.
fn whole_example() -> String {
    let uncommented = |line: &str| match line.strip_prefix('#') {
        Some(rest)
            if rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '[' || c == '"') =>
        {
            rest.to_owned()
        }
        _ => line.to_owned(),
    };
    EXAMPLE.lines().map(uncommented).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_example_loads_as_it_is() {
    let dir = ConfigDir::new(&[("adjutant.toml", EXAMPLE)]);
    let loaded = dir.load();
    assert_eq!(dir.texts(&loaded.errors), [""; 0]);
    assert_eq!(dir.texts(&loaded.config.warnings), [""; 0]);
    assert_eq!(loaded.config.model_names.default.as_deref(), Some("main"));
    assert_eq!(
        loaded.config.agents["researcher"].definition.config.tools,
        ["shared_context", "fetch"]
    );
}

#[test]
fn the_example_loads_with_every_setting() {
    let mut dir = ConfigDir::new(&[
        ("adjutant.toml", &whole_example()),
        ("prompts/writer.md", "You write.\n"),
        (
            "skills/citing/SKILL.md",
            "---\nname: citing\ndescription: Names sources\nallowed-tools: Read, WebFetch\n---\nName them.\n",
        ),
        (
            "agents/reader.md",
            "---\nname: reader\ndescription: Reads\ntools: Read\nmodel: sonnet\n---\nYou read.\n",
        ),
        (
            "home/.claude/agents/tester.md",
            "---\nname: tester\ndescription: Tests\ntools: []\n---\nYou test.\n",
        ),
    ]);
    let home = dir.dir.path().join("home").display().to_string();
    dir.environment.variables.push(("HOME".to_owned(), home));
    let loaded = dir.load();
    assert_eq!(dir.texts(&loaded.errors), [""; 0]);
    assert_eq!(dir.texts(&loaded.config.warnings), [""; 0]);
    let config = loaded.config;
    assert_eq!(
        config.agents.keys().collect::<Vec<_>>(),
        ["reader", "researcher", "tester", "writer"]
    );
    assert_eq!(config.agents["writer"].definition.config.system_prompt, "You write.");
    let reader = &config.agents["reader"].definition.config;
    assert_eq!(
        (reader.model.as_str(), reader.tools.as_slice()),
        ("main", ["read_file".to_owned()].as_slice())
    );
    let root = config.tools.files.as_ref().unwrap().root.clone();
    assert_eq!(root, dir.dir.path().join("data"), "relative to the file");
}

#[test]
fn every_setting_is_in_the_example() {
    fn collect(table: &Table, pattern: &str, found: &mut BTreeSet<String>) {
        for (name, node) in table {
            let dotted = |name: &str| {
                if pattern.is_empty() { name.to_owned() } else { format!("{pattern}.{name}") }
            };
            let below =
                if matches!(pattern, "models" | "agents" | "skills" | "tools.http" | "tools.mcp") {
                    dotted("*")
                } else {
                    dotted(name)
                };
            match node.as_table().filter(|_| kind_of(&below).is_none()) {
                Some(table) => collect(table, &below, found),
                None => drop(found.insert(below)),
            }
        }
    }
    let mut findings = Findings::default();
    let table = read_toml(&"example".into(), &whole_example(), &mut findings);
    assert_eq!(findings, Findings::default());
    let mut found = BTreeSet::new();
    collect(&table, "", &mut found);
    let settings: BTreeSet<String> =
        all_settings().map(|setting| setting.name.to_owned()).collect();
    assert_eq!(found, settings);
}

/// What is commented out and not marked as an example is what holds without it.
#[test]
fn what_the_example_calls_a_default_is_one() {
    let bare = ConfigDir::new(&[("adjutant.toml", MODEL)]).load().config;
    let said = ConfigDir::new(&[(
        "adjutant.toml",
        "[models.main]\nwire = 'openai'\nmax_tokens = 4096\nidle_timeout_s = 300\ntimeout_s = 1800\n\
         [tools.fetch]\nenabled = true\nmax_bytes = 2097152\ntimeout_s = 30\nallow_private = false\n\
         [limits]\ncap = 5\nsession_max_active = 5\nsession_max_queued = 1000\nmax_turns_ceiling = 25\n\
         [server]\nlisten = '127.0.0.1:7433'\nmax_body_bytes = 1048576\n\
         [webhooks]\nallow_private = false\ntimeout_s = 15\nmax_tries = 8\nretry_s = 5\nretry_max_s = 21600\n\
         [lease]\nseconds = 30\n",
    )])
    .load()
    .config;
    assert_eq!((bare.models, bare.tools, bare.limits), (said.models, said.tools, said.limits));
    assert_eq!((bare.server, bare.lease_seconds), (said.server, said.lease_seconds));
    assert_eq!(bare.webhooks, said.webhooks);
}

#[test]
fn nodes_of_the_example_know_their_lines() {
    let line = EXAMPLE.lines().position(|line| line.starts_with("seconds = ")).unwrap() + 1;
    let broken = EXAMPLE.replace("seconds = 30", "seconds = 1");
    let dir = ConfigDir::new(&[("adjutant.toml", &broken)]);
    assert_eq!(
        dir.errors(),
        [format!("adjutant.toml:{line}:11: lease.seconds: must be at least 2, not 1")]
    );
}
