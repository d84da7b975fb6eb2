use std::collections::BTreeSet;

use super::super::agents::Agents;
use super::super::load::EXAMPLE;
use super::super::problem::Findings;
use super::super::schema::{all_settings, kind_of};
use super::super::tree::{Table, read_toml};
use super::*;

/// The example with every setting uncommented.
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
fn the_example_loads_unchanged() {
    let dir = ConfigDir::new(&[("adjutant.toml", EXAMPLE)]);
    let loaded = dir.load();
    assert_eq!(dir.texts(&loaded.errors), [""; 0]);
    assert_eq!(dir.texts(&loaded.config.warnings), [""; 0]);
    assert_eq!(loaded.config.model_names.default.as_deref(), Some("main"));
    assert_eq!(
        loaded.config.agents["researcher"].definition.spec.tools,
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
    assert_eq!(config.agents["writer"].definition.spec.system_prompt, "You write.");
    let reader = &config.agents["reader"].definition.spec;
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

/// A setting of the example with the comment above it.
struct Described<'a> {
    comment: String,
    line: &'a str,
}

impl Described<'_> {
    /// Whether the line is commented out and shows the default.
    fn shows_the_default(&self) -> bool {
        self.line.starts_with('#')
            && !self.comment.contains("example:")
            && !self.comment.contains("Default:")
    }

    /// Whether the comment gives the value of the line as the default.
    fn states_the_default(&self) -> bool {
        let value = self.line.split_once(" = ").map_or("", |(_, value)| value);
        !self.line.starts_with('#') && self.comment.contains(&format!("Default: {value}."))
    }
}

/// The settings in tables that are not commented out.
fn described() -> Vec<Described<'static>> {
    let (mut found, mut comment, mut in_example) = (Vec::new(), String::new(), false);
    for line in EXAMPLE.lines() {
        match line.strip_prefix('#').unwrap_or(line) {
            rest if rest.starts_with('[') => in_example = line.starts_with('#'),
            text if text.starts_with(' ') => {
                comment.push_str(text);
                continue;
            }
            rest if rest.contains(" = ") && !in_example => {
                found.push(Described { comment: comment.clone(), line });
            }
            _ => {}
        }
        comment.clear();
    }
    found
}

#[test]
fn the_defaults_in_the_example_are_the_defaults() {
    let described = described();
    let (mut text, mut checked) = (String::new(), 0);
    for line in EXAMPLE.lines() {
        let setting = described.iter().find(|setting| std::ptr::eq(setting.line, line));
        match setting {
            Some(setting) if setting.shows_the_default() => text.push_str(&line[1..]),
            Some(setting) if setting.states_the_default() => {}
            _ => {
                text.push_str(line);
                checked -= 1;
            }
        }
        text.push('\n');
        checked += 1;
    }
    assert!(checked > 30, "only {checked} defaults were found");
    let [example, changed] = [EXAMPLE, &text].map(|text| {
        let dir = ConfigDir::new(&[("adjutant.toml", text)]);
        assert_eq!(dir.errors(), [""; 0], "{text}");
        dir.load().config
    });
    assert_eq!((example.models, example.tools), (changed.models, changed.tools));
    assert_eq!((example.limits, example.server), (changed.limits, changed.server));
    assert_eq!((example.webhooks, example.dialects), (changed.webhooks, changed.dialects));
    assert_eq!(
        (example.free_form, example.lease_seconds),
        (changed.free_form, changed.lease_seconds)
    );
    assert_eq!(example.log_payloads, changed.log_payloads);
    let definitions =
        |agents: Agents| agents.into_values().map(|agent| agent.definition).collect::<Vec<_>>();
    assert_eq!(definitions(example.agents), definitions(changed.agents));
}

#[test]
fn settings_of_the_example_have_their_lines() {
    let line = EXAMPLE.lines().position(|line| line.starts_with("seconds = ")).unwrap() + 1;
    let broken = EXAMPLE.replace("seconds = 30", "seconds = 1");
    let dir = ConfigDir::new(&[("adjutant.toml", &broken)]);
    assert_eq!(
        dir.errors(),
        [format!("adjutant.toml:{line}:11: lease.seconds: must be at least 2, not 1")]
    );
}
