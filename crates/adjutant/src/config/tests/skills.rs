use adjutant_agent::{InheritancePolicy, MissingSkill};

use super::*;

const SQL: &str = "[skills.sql]\ndescription = 'Reads tables'\ninstructions = 'Count first.'\ntools = ['fetch']\n";
const AGENT: &str = "[agents.reader]\ndescription = 'Reads'\nsystem_prompt = 'You read.'\n";

#[test]
fn skills_come_from_tables_and_from_folders_and_agents_get_their_texts() {
    let config =
        format!("skills_dir = './skills'\n{MODEL}{SQL}{AGENT}skills = ['sql', 'pdf-forms']\n");
    let dir = ConfigDir::new(&[
        ("adjutant.toml", &config),
        (
            "skills/pdf-forms/SKILL.md",
            "---\nname: pdf-forms\ndescription: Fills\n  forms\nallowed-tools: WebFetch Bash(git:*), Read\n---\n# Forms\n\nFill them.\n",
        ),
        ("skills/pdf-forms/reference.md", "# No skill by itself\n"),
        (
            "skills/deep/er/plain/SKILL.md",
            "---\ndescription: By its folder\nallowed-tools: [fetch]\n---\nDo it.\n",
        ),
    ]);
    assert_eq!(dir.errors(), [""; 0]);
    let config = dir.load().config;
    assert_eq!(config.skills.keys().collect::<Vec<_>>(), ["pdf-forms", "plain", "sql"]);
    let pdf = &config.skills["pdf-forms"].definition;
    assert_eq!(
        (pdf.description.as_str(), pdf.instructions.as_str()),
        ("Fills forms", "# Forms\n\nFill them.")
    );
    let agent_config = &config.agents["reader"].definition.config;
    assert_eq!(
        agent_config.skills.iter().map(|skill| skill.name.as_str()).collect::<Vec<_>>(),
        ["sql", "pdf-forms"]
    );
    assert_eq!(agent_config.skills[0].instructions, "Count first.");
    assert_eq!(config.skills["plain"].definition.tools, ["fetch"]);
    assert!(
        dir.warnings()
            .iter()
            .any(|text| text.contains("allowed-tools") && text.contains("Read is ignored"))
    );
}

#[test]
fn an_invalid_skill_is_an_error_with_its_line() {
    let config = format!(
        "skills_dir = ['./skills', './nowhere']\n{MODEL}{SQL}[skills.Bad]\ndescription = 'x'\ninstructions = 'y'\ntools = ['fly']\n[skills.bare]\n{AGENT}skills = ['sqll']\n"
    );
    let dir = ConfigDir::new(&[
        ("adjutant.toml", &config),
        ("skills/sql/SKILL.md", "---\nname: sql\ndescription: Another\n---\nBody.\n"),
        ("skills/none/SKILL.md", "No front matter.\n"),
        ("skills/empty/SKILL.md", "---\nname: empty\n---\n"),
    ]);
    let errors = dir.errors().join("\n");
    for part in [
        "skills_dir: cannot read the folder",
        "skills.Bad: a skill name has 1 to 64",
        "skills.Bad.tools: unknown tool \"fly\"",
        "skills.bare.description: is required",
        "skills.bare.instructions: is required",
        "is already defined in",
        "skills/none/SKILL.md:1:1: has no front matter",
        "skills/empty/SKILL.md:1:1: description: is required",
        "skills/empty/SKILL.md:1:1: instructions: are required",
        "agents.reader.skills: unknown skill \"sqll\"; did you mean sql?",
    ] {
        assert!(errors.contains(part), "{part} is not in:\n{errors}");
    }
}

#[test]
fn an_agent_without_an_inheritance_table_has_no_policy() {
    let policy =
        "[agents.reader.inheritance]\ninherit_tools = ['fetch']\nmissing_skill_policy = 'error'\n";
    let config = format!("{MODEL}{AGENT}{policy}");
    let agents = ConfigDir::new(&[("adjutant.toml", &config)]).load().config.agents;
    let expected = InheritancePolicy {
        inherit_tools: vec!["fetch".to_owned()],
        missing_skill_policy: MissingSkill::Error,
        ..InheritancePolicy::default()
    };
    assert_eq!(agents["reader"].definition.config.inheritance, Some(expected));
    let plain = ConfigDir::new(&[("adjutant.toml", &format!("{MODEL}{AGENT}"))]).load().config;
    assert_eq!(plain.agents["reader"].definition.config.inheritance, None);
    let wrong = format!(
        "{MODEL}{AGENT}[agents.reader.inheritance]\ntool_conflict_policy = 'skipp'\ninherits = true\n"
    );
    let errors = ConfigDir::new(&[("adjutant.toml", &wrong)]).errors().join("\n");
    assert!(
        errors.contains("did you mean \"skip\"?")
            && errors.contains("agents.reader.inheritance.inherits: unknown setting"),
        "{errors}"
    );
}

#[test]
fn free_form_agents_are_off_unless_enabled() {
    let with = |more: &str| {
        ConfigDir::new(&[("adjutant.toml", &format!("{MODEL}{SQL}[free_form]\n{more}"))]).load()
    };
    assert_eq!(with("").config.free_form, None);
    assert_eq!(with("enabled = false\nmax_turns = 3\n").config.free_form, None);
    let on = with("enabled = true\nskills = ['sql']\nmax_turns = 3\n").config.free_form.unwrap();
    assert!(
        on.config.system_prompt.contains("${_category}")
            && on.config.max_turns == 3
            && on.config.skills.len() == 1
    );
    assert_eq!(with("enabled = true\ntools = ['fly']\nskills = ['x']\n").errors.len(), 2);
}

#[test]
fn two_settings_of_the_cap_must_agree() {
    let with = |more: &str| ConfigDir::new(&[("adjutant.toml", &format!("{MODEL}{more}"))]);
    let ecs = "[dialects.ecs]\nmax_background_concurrency = 7\ndefault_timeout = 30\n";
    let config = with(ecs).load().config;
    assert_eq!((config.limits.cap, config.dialects.ecs.default_timeout), (7, Some(30.0)));
    assert_eq!(with(&format!("{ecs}[limits]\ncap = 7\n")).errors(), [""; 0]);
    let errors = with(&format!("{ecs}[limits]\ncap = 8\n")).errors().join("\n");
    assert!(
        errors.contains("dialects.ecs.max_background_concurrency: is 7, but limits.cap is 8"),
        "{errors}"
    );
}
