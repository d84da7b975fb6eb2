use std::os::unix::fs::symlink;
use std::path::Path;

use adjutant_agent::{AgentDefinition, OnWorkerLoss};

use super::*;

const CONFIG: &str = "agents_dir = 'agents'\n[models.main]\nwire = 'openai'\nprices = { input = 1.0 }\n[model_aliases]\nopus = 'main'\n[tools.files]\nroot = '.'\n[tools.mcp.github]\nurl = 'https://x/mcp'\n";

/// A config whose folder `agents` has this one file.
fn with(file: &str) -> ConfigDir {
    let config = format!("agents_dir = './agents'\n{MODEL}");
    ConfigDir::new(&[("adjutant.toml", &config), ("agents/a.md", file)])
}

fn only(dir: &ConfigDir) -> AgentDefinition {
    let loaded = dir.load();
    assert_eq!(dir.texts(&loaded.errors), [""; 0]);
    loaded.config.agents.into_values().next().expect("an agent").definition
}

fn agent(front: &str) -> String {
    format!("---\n{front}\n---\nYou work.\n")
}

#[test]
fn an_agent_of_a_file_may_delegate_within_the_limits() {
    let file = agent("name: head\ndescription: Leads\ntools: []\nmay_delegate: true");
    let shallow = with(&file);
    assert_eq!(
        shallow.warnings(),
        ["agents/a.md:1:1: agents.head.may_delegate: has no effect, because limits.max_depth is 1"]
    );
    let config = format!("agents_dir = './agents'\n{MODEL}[limits]\nmax_depth = 3\n");
    let dir = ConfigDir::new(&[("adjutant.toml", &config), ("agents/a.md", &file)]);
    assert_eq!(dir.warnings(), [""; 0]);
    assert!(only(&dir).config.may_delegate);
    assert_eq!(dir.load().config.limits.max_depth, 3);
    for wrong in ["0", "11"] {
        let config = format!("{MODEL}[limits]\nmax_depth = {wrong}\n");
        let errors = ConfigDir::new(&[("adjutant.toml", &config)]).errors();
        assert!(errors.len() == 1 && errors[0].contains("limits.max_depth"), "{errors:?}");
    }
}

#[test]
fn a_claude_agents_folder_loads_unchanged() {
    let dir = ConfigDir::new(&[("adjutant.toml", CONFIG)]);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/config/tests/claude_agents");
    symlink(folder, dir.dir.path().join("agents")).unwrap();
    let loaded = dir.load();
    assert_eq!(dir.texts(&loaded.errors), [""; 0]);
    let agents = &loaded.config.agents;
    assert_eq!(
        agents.keys().collect::<Vec<_>>(),
        ["code-reviewer", "doc-writer", "security-auditor", "test-writer"]
    );

    let reviewer = &agents["code-reviewer"].definition;
    assert_eq!(reviewer.config.tools, ["read_file", "search_files", "list_files"]);
    assert_eq!(
        (reviewer.config.model.as_str(), reviewer.config.max_turns),
        ("", 10),
        "the session decides"
    );
    assert!(
        reviewer
            .config
            .system_prompt
            .starts_with("You are a senior code reviewer.\n\nWhen invoked:\n1. ")
    );
    assert!(reviewer.config.system_prompt.ends_with("suggestions."));

    let tester = &agents["test-writer"].definition;
    assert!(
        tester
            .description
            .starts_with("Use this agent when you need tests. Examples: <example> Context: ")
    );
    assert!(tester.description.ends_with("tests follow.</commentary> </example>"));
    assert_eq!((tester.config.model.as_str(), tester.config.tools.len()), ("main", 0));

    let auditor = &agents["security-auditor"].definition;
    assert_eq!(auditor.description, "Audits code for vulnerabilities. Knows the OWASP list.");
    assert_eq!(auditor.config.tools, ["read_file", "fetch", "github__search_issues"]);
    assert_eq!((auditor.config.model.as_str(), auditor.config.max_turns), ("main", 12));
    assert_eq!(auditor.config.timeout_s, Some(600.0));
    assert_eq!(auditor.config.budget.max_cost_nanousd, Some(500_000_000));
    assert_eq!(auditor.on_worker_loss, OnWorkerLoss::Fail);

    let writer = &agents["doc-writer"].definition;
    assert_eq!(
        (writer.description.as_str(), writer.config.system_prompt.as_str()),
        ("Writes docs: short ones", "You write docs.")
    );
    assert_eq!(writer.config.tools, ["read_file"]);

    assert_eq!(
        dir.texts(&loaded.config.warnings),
        [
            "agents/code-reviewer.md:4:8: tools: Bash is ignored: Adjutant has no matching tool",
            "agents/doc-writer.md:4:8: tools: WebSearch is ignored: Adjutant has no matching tool",
            "agents/review/security-auditor.md:7:3: tools: Bash(git log:*, git diff:*) is ignored: Adjutant has no matching tool",
            "agents/review/security-auditor.md:7:3: tools: mcp__jira__get_ticket is ignored: tools.mcp.jira does not exist",
            "agents/test-writer.md:1:1: tools: is missing, so the agent has no tools; write `tools: []` if that is intended",
            "agents/test-writer.md:4:8: model: unknown model \"sonnet\", using main; map it in [model_aliases]",
        ]
    );
}

#[test]
fn an_invalid_agent_file_is_an_error_with_its_line() {
    for (file, expected) in [
        (
            agent("name: Code Reviewer\ndescription: d\ntools: []"),
            "agents/a.md:2:7: name: an agent name has 1 to 64 characters: a-z, 0-9, _ and -; for example code-reviewer",
        ),
        (
            agent("name: 'a\n\n  b'\ndescription: d\ntools: []"),
            "agents/a.md:2:7: name: an agent name has 1 to 64 characters: a-z, 0-9, _ and -; for example a-b",
        ),
        (
            agent("name: ???\ndescription: d\ntools: []"),
            "agents/a.md:2:7: name: an agent name has 1 to 64 characters: a-z, 0-9, _ and -",
        ),
        (
            agent("name: a\ntools: []"),
            "agents/a.md:1:1: description: is required: one line that says what the agent is for",
        ),
        (
            agent("name: a\ndescription: d\ntools: []\nmax_turns: 0"),
            "agents/a.md:5:12: max_turns: must be at least 1, not 0",
        ),
        (
            agent("name: a\ndescription: d\ntools: []\nmax_turns: many"),
            "agents/a.md:5:12: max_turns: must be a whole number",
        ),
        (
            "---\nname: a\ndescription: d\ntools: []\n---\n \n".to_owned(),
            "agents/a.md:1:1: system_prompt: is required: write it below the front matter",
        ),
        (
            "---\nname: a\n".to_owned(),
            "agents/a.md:1:1: front matter starts here and never ends: add a closing --- line",
        ),
    ] {
        let dir = with(&file);
        assert_eq!(dir.errors(), [expected], "{file}");
        assert!(dir.load().config.agents.is_empty());
    }
}

#[test]
fn an_agent_without_a_name_is_named_after_its_file() {
    assert_eq!(only(&with(&agent("description: d\ntools: []"))).name, "a");
}

#[test]
fn turns_above_the_ceiling_are_reduced_with_a_warning() {
    let dir = with(&agent("description: d\ntools: []\nmax_turns: 99"));
    assert_eq!(only(&dir).config.max_turns, 25);
    assert_eq!(
        dir.warnings(),
        ["agents/a.md:4:12: max_turns: is 99, reduced to limits.max_turns_ceiling (25)"]
    );
}

#[test]
fn a_long_prompt_in_the_config_is_only_a_warning() {
    let long = format!("---\ndescription: d\ntools: []\n---\n{}", "x".repeat(16_004));
    let dir = with(&long);
    assert_eq!(only(&dir).config.system_prompt.len(), 16_004);
    assert_eq!(
        dir.warnings(),
        ["agents/a.md:1:1: system_prompt: has about 4001 tokens, which every turn pays for"]
    );
    assert_eq!(with(&long[..long.len() - 1]).warnings(), [""; 0]);
}

#[test]
fn tools_that_delegate_are_removed_without_a_warning() {
    let dir = with(&agent("description: d\ntools: fetch, subagent, Task, shared_context, fetch"));
    assert_eq!(only(&dir).config.tools, ["fetch", "shared_context"]);
    assert_eq!(dir.warnings(), [""; 0]);
}

#[test]
fn two_agents_with_one_name_are_an_error_that_names_both_files() {
    let file = agent("name: same\ndescription: d\ntools: []");
    let config = "agents_dir = ['./agents', './agents']\n[agents.same]\ndescription = 'd'\nsystem_prompt = 'p'\n";
    let dir = ConfigDir::new(&[
        ("adjutant.toml", &format!("{config}{MODEL}")),
        ("agents/a.md", &file),
        ("agents/b/c.md", &file),
    ]);
    assert_eq!(
        dir.errors(),
        [
            "agents/a.md:1:1: agents.same: is already defined in adjutant.toml:2:9; rename one of them",
            "agents/b/c.md:1:1: agents.same: is already defined in adjutant.toml:2:9; rename one of them",
        ]
    );
}

#[test]
fn hidden_files_and_files_without_front_matter_are_not_agents() {
    let dir = with(&agent("description: d\ntools: []"));
    let folder = dir.dir.path().join("agents");
    dir.write("agents/readme.md", "# Agents\n");
    dir.write("agents/.hidden.md", "---\n");
    dir.write("agents/.git/x.md", "---\n");
    dir.write("agents/x.md~", "---\n");
    dir.write("agents/notes.md", "Not one.\n");
    fs::create_dir(folder.join("folder.md")).unwrap();
    symlink(&folder, folder.join("loop")).unwrap();
    symlink(folder.join("nowhere.md"), folder.join("broken.md")).unwrap();
    dir.write("elsewhere/linked.md", agent("description: d\ntools: []"));
    symlink(dir.dir.path().join("elsewhere/linked.md"), folder.join("linked.md")).unwrap();
    let loaded = dir.load();
    assert_eq!(
        dir.texts(&loaded.errors),
        ["agents/broken.md: cannot be read: no such file or directory"]
    );
    assert_eq!(
        dir.texts(&loaded.config.warnings),
        ["agents/notes.md:1:1: has no front matter (a first line ---), so it is not an agent"]
    );
    assert_eq!(loaded.config.agents.keys().collect::<Vec<_>>(), ["a", "linked"]);
}

#[test]
fn a_file_that_is_not_utf_8_or_too_large_is_an_error() {
    let dir = with("");
    dir.write("agents/a.md", b"---\ndescription: caf\xe9\n---\nx");
    assert_eq!(dir.errors(), ["agents/a.md:2:17: is not UTF-8"]);
    dir.write("agents/a.md", vec![b'x'; (1 << 20) + 1]);
    assert_eq!(dir.errors(), ["agents/a.md: is too large: 1048577 bytes; the limit is 1048576"]);
}

#[test]
fn a_missing_folder_is_an_error() {
    let dir = ConfigDir::new(&[("adjutant.toml", "agents_dir = ['agents']\n")]);
    assert_eq!(
        dir.errors(),
        [
            "adjutant.toml:1:15: agents_dir: cannot read the folder agents: no such file or directory"
        ]
    );
}

#[test]
fn an_unknown_tool_is_accepted_if_an_mcp_server_may_have_it() {
    let text = "[tools.mcp.m]\nurl = 'http://x'\n[agents.a]\ndescription = 'd'\nsystem_prompt = 'p'\ntools = ['anything', 'subagent']\n";
    let dir = ConfigDir::new(&[("adjutant.toml", &format!("{text}{MODEL}"))]);
    assert_eq!(only(&dir).config.tools, ["anything"]);
}

#[test]
fn a_single_model_is_the_default_and_several_have_none() {
    let default =
        |text: &str| ConfigDir::new(&[("adjutant.toml", text)]).load().config.model_names.default;
    assert_eq!(default(MODEL).as_deref(), Some("main"));
    assert_eq!(default(&format!("{MODEL}[models.b]\nwire = 'openai'\n")), None);
    assert_eq!(default(""), None);
}

#[test]
fn a_file_sets_body_fields_and_compaction() {
    let front = "name: a\ndescription: Works\ntools: []\ncompaction: off\nextra_body:\n  temperature: 0.2\n  reasoning_effort: high\n  thinking: {type: enabled, budget_tokens: 2000}";
    let agent = only(&with(&agent(front))).config;
    let expected = serde_json::json!({
        "temperature": 0.2, "reasoning_effort": "high",
        "thinking": {"type": "enabled", "budget_tokens": 2000},
    });
    assert_eq!(serde_json::Value::from(agent.extra_body), expected);
    assert_eq!(agent.compaction, Some(adjutant_agent::Compaction::Off));
}
