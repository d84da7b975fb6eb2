//! Agents, from tables of the config and from Markdown files.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use adjutant_agent::{
    AgentDefinition, AgentDraft, DefinitionLimits, MAX_PROMPT_TOKENS, OnWorkerLoss, SUBAGENT, Skill,
    check_agent_name, estimate_tokens,
};

use super::check::{fit, split_list};
use super::ecs;
use super::files::{AgentFile, Files};
use super::front_matter::{self, FrontMatter};
use super::known::{Found, ModelNames, ToolNames};
use super::nearest::suggestion;
use super::problem::{Findings, Place};
use super::schema::{dotted, kind_of, names_in};
use super::skills::Skills;
use super::tree::{Node, Table, Value};

/// An agent that every session has.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    pub definition: AgentDefinition,
    /// Where it is written.
    pub source: Place,
    pub key: Key,
}

/// What an agent is read from, whatever it is called and on whatever line it stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// `[agents.NAME]`
    Table(String),
    /// A Markdown file.
    File(Arc<str>),
}

/// All agents by name.
pub type Agents = BTreeMap<String, Agent>;

/// What an agent may name.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    pub models: &'a ModelNames,
    pub tools: &'a ToolNames,
    pub skills: &'a Skills,
    pub max_turns_ceiling: i32,
}

impl Known<'_> {
    /// The skills that a table names, with their texts.
    pub fn skills_in(&self, settings: &Table, table: &str, findings: &mut Findings) -> Vec<Skill> {
        let mut skills = Vec::new();
        let written = settings.get("skills").into_iter().flat_map(Node::texts);
        for (node, name) in written.flat_map(|(node, text)| split_list(text).map(move |name| (node, name))) {
            match self.skills.get(name) {
                Some(skill) => skills.push(skill.definition.clone()),
                None => {
                    let names: Vec<&str> = self.skills.keys().map(String::as_str).collect();
                    let text = format!("there is no skill {name:?}; {}", suggestion(name, names));
                    findings.error(&node.place, dotted(table, "skills"), text);
                }
            }
        }
        skills
    }
}

/// The agent of the table `[agents.NAME]`, of which what was wrong has been left out and said.
pub fn from_table(
    name: &str,
    node: &Node,
    files: &Files,
    known: Known<'_>,
    findings: &mut Findings,
) -> Option<Agent> {
    let settings = node.as_table()?;
    let table = dotted("agents", name);
    let is_about_it =
        |at: &str| at.strip_prefix(&table).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let is_wrong = |findings: &Findings| findings.errors.iter().any(|problem| is_about_it(&problem.name));
    let mut reading = Reading { table: &table, source: &node.key, settings, known, findings };
    reading.check_name(name, &node.key);
    let system_prompt = reading.prompt_of_table(files);
    let tools = reading.tools_of_table();
    let model = reading.model_of_table();
    let skills = reading.skills();
    reading.require_description();
    if is_wrong(reading.findings) {
        return None;
    }
    let draft = AgentDraft {
        name: name.to_owned(),
        system_prompt,
        tools: Some(tools),
        model,
        skills,
        ..reading.draft()
    };
    let definition = reading.define(draft)?;
    Some(Agent { definition, source: node.key.clone(), key: Key::Table(name.to_owned()) })
}

/// A file that is not what it should be; why has been said.
pub struct Wrong;

/// The agent of a Markdown file; without front matter it is none.
pub fn from_markdown(
    file: &AgentFile,
    known: Known<'_>,
    findings: &mut Findings,
) -> Result<Option<Agent>, Wrong> {
    let source = Place::Line { file: file.shown.clone(), line: 1, column: 1 };
    let front = file.text.clone().and_then(|text| front_matter::read(&file.shown, &text));
    let FrontMatter { settings, body } = match front {
        Ok(Some(front)) => front,
        Ok(None) => {
            if !is_readme(&file.path) {
                findings.warning(&source, "", "it does not begin with ---, so it is not an agent");
            }
            return Ok(None);
        }
        Err(problem) => {
            findings.errors.push(problem);
            return Err(Wrong);
        }
    };
    let before = findings.errors.len();
    let (name, name_place) = match settings.get("name").and_then(|node| Some((node.as_text()?, node))) {
        Some((name, node)) => (name.trim().to_owned(), node.place.clone()),
        None => (stem(&file.path), source.clone()),
    };
    let settings = fit_front_matter(settings, findings);
    let mut reading = Reading { table: "", source: &source, settings: &settings, known, findings };
    reading.check_name(&name, &name_place);
    if body.is_empty() {
        reading.missing("system_prompt", "is missing: write it below the front matter");
    }
    let tools = reading.tools_of_markdown();
    let model = reading.model_of_markdown();
    let skills = reading.skills();
    reading.require_description();
    if reading.findings.errors.len() > before {
        return Err(Wrong);
    }
    let draft =
        AgentDraft { name, system_prompt: Some(body), tools: Some(tools), model, skills, ..reading.draft() };
    let definition = reading.define(draft).ok_or(Wrong)?;
    Ok(Some(Agent { definition, source, key: Key::File(file.shown.clone()) }))
}

fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

fn is_readme(path: &Path) -> bool {
    path.file_stem().is_some_and(|stem| stem.eq_ignore_ascii_case("readme"))
}

/// Those settings that are ours, as their kinds want them. Those of other programs are none of our business.
fn fit_front_matter(settings: Table, findings: &mut Findings) -> Table {
    let ours = names_in("agents.*");
    settings
        .into_iter()
        .map(|(name, node)| (if name == "maxTurns" { "max_turns".to_owned() } else { name }, node))
        .filter_map(|(name, node)| {
            let kind = match name.as_str() {
                "disallowedTools" => kind_of("agents.*.tools"),
                // The prompt is what is below.
                "system_prompt" | "system_prompt_file" => None,
                name if ours.contains(&name) => kind_of(&format!("agents.*.{name}")),
                _ => None,
            }?;
            Some((name.clone(), fit(kind, &name, node, findings)?))
        })
        .collect()
}

/// An agent that is being read.
struct Reading<'a> {
    /// What its settings' names begin with.
    table: &'a str,
    source: &'a Place,
    settings: &'a Table,
    known: Known<'a>,
    findings: &'a mut Findings,
}

impl Reading<'_> {
    fn name_of(&self, setting: &str) -> String {
        dotted(self.table, setting)
    }

    fn error(&mut self, place: &Place, setting: &str, text: impl Into<String>) {
        let name = self.name_of(setting);
        self.findings.error(place, name, text);
    }

    fn missing(&mut self, setting: &str, text: &str) {
        let name = self.name_of(setting);
        self.findings.missing(self.source, name, text);
    }

    fn warning(&mut self, place: &Place, setting: &str, text: impl Into<String>) {
        let name = self.name_of(setting);
        self.findings.warning(place, name, text);
    }

    fn check_name(&mut self, name: &str, place: &Place) {
        if check_agent_name(name).is_ok() {
            return;
        }
        let what = if self.table.is_empty() { "name".to_owned() } else { self.table.to_owned() };
        let rule = "an agent's name has 1 to 64 of a-z, 0-9, _ and -";
        let text = match allowed_form(name) {
            Some(form) => format!("{rule}; {form} would do"),
            None => rule.to_owned(),
        };
        self.findings.error(place, what, text);
    }

    fn require_description(&mut self) {
        if !self.settings.contains_key("description") {
            self.missing("description", "is missing: one line that says what the agent is for");
        }
    }

    fn text(&self, setting: &str) -> Option<(&Node, &str)> {
        let node = self.settings.get(setting)?;
        Some((node, node.as_text()?))
    }

    fn prompt_of_table(&mut self, files: &Files) -> Option<String> {
        match (self.settings.get("system_prompt"), self.settings.get("system_prompt_file")) {
            (Some(node), None) => node.as_text().map(str::to_owned),
            (None, Some(node)) => match files.prompts.get(&node.place)? {
                Ok(text) if text.trim().is_empty() => {
                    self.error(&node.place, "system_prompt_file", "the file is empty");
                    None
                }
                Ok(text) => Some(text.trim().to_owned()),
                Err(problem) => {
                    self.error(&node.place, "system_prompt_file", problem.to_string());
                    None
                }
            },
            (Some(_), Some(node)) => {
                let text = "system_prompt is there too; remove one of them";
                self.error(&node.key, "system_prompt_file", text);
                None
            }
            (None, None) => {
                self.missing("system_prompt", "is missing; add it, or system_prompt_file");
                None
            }
        }
    }

    fn tools_of_table(&mut self) -> Vec<String> {
        let mut tools = Vec::new();
        for (node, name) in self.settings.get("tools").into_iter().flat_map(Node::texts) {
            match self.known.tools.find(name) {
                _ if name == SUBAGENT => {}
                Found::Here | Found::Perhaps => tools.push(name.to_owned()),
                Found::No(why) => {
                    let name = dotted(self.table, "tools");
                    self.findings.error(&node.place, name, why);
                }
            }
        }
        tools
    }

    /// Without one, the session decides.
    fn model_of_table(&mut self) -> Option<String> {
        let (node, name) = self.text("model")?;
        let (place, name) = (node.place.clone(), name.to_owned());
        let model = self.known.models.resolve(&name).map(str::to_owned);
        if model.is_none() {
            let text = format!("there is no model {name:?}; {}", self.known.models.suggestion(&name));
            self.error(&place, "model", text);
        }
        model
    }

    /// Files written for another program name its models: they are aliases, or the default will do.
    fn model_of_markdown(&mut self) -> Option<String> {
        let (node, name) = self.text("model").filter(|(_, name)| name.trim() != "inherit")?;
        let (place, name) = (node.place.clone(), name.trim().to_owned());
        if let Some(model) = self.known.models.resolve(&name) {
            return Some(model.to_owned());
        }
        let default = self.known.models.default.clone();
        let instead = default.as_deref().unwrap_or("that of the session");
        let text = format!(
            "there is no model {name:?}; a line in [model_aliases] can say which one it stands for; until then it is {instead}"
        );
        self.warning(&place, "model", text);
        default
    }

    /// Tools that another program has and we have not are left out: the file may be in use there too.
    fn tools_of_markdown(&mut self) -> Vec<String> {
        let Some(node) = self.settings.get("tools") else {
            let source = self.source.clone();
            self.warning(
                &source,
                "tools",
                "is missing, so the agent has none; `tools: []` says that it is meant",
            );
            return Vec::new();
        };
        let list = |node: &Node| -> Vec<String> {
            node.texts().flat_map(|(_, text)| split_list(text)).map(str::to_owned).collect()
        };
        let refused = self.settings.get("disallowedTools").map(list).unwrap_or_default();
        let place = node.place.clone();
        let mut tools = Vec::new();
        for written in list(node).into_iter().filter(|tool| !refused.contains(tool)) {
            let found =
                our_name(&written, self.known.tools).and_then(|name| match self.known.tools.find(&name) {
                    Found::Here | Found::Perhaps => Ok(name),
                    Found::No(_) if name == SUBAGENT => Ok(name),
                    Found::No(why) => Err(why),
                });
            match found {
                Ok(name) if name == SUBAGENT => {}
                Ok(name) => tools.push(name),
                Err(why) => self.warning(&place, "tools", format!("{written} is left out: {why}")),
            }
        }
        tools
    }

    fn skills(&mut self) -> Vec<Skill> {
        let (known, table) = (self.known, self.table);
        known.skills_in(self.settings, table, self.findings)
    }

    fn whole(&self, setting: &str) -> Option<i64> {
        self.settings.get(setting).and_then(Node::as_integer)
    }

    fn number(&self, setting: &str) -> Option<f64> {
        self.settings.get(setting).and_then(Node::as_number)
    }

    /// What is the same for both, as it is written.
    fn draft(&self) -> AgentDraft {
        AgentDraft {
            description: self.text("description").map(|(_, text)| one_line(text)),
            max_turns: self.whole("max_turns"),
            summary_prompt: self.text("summary_prompt").map(|(_, text)| text.to_owned()),
            timeout_s: self.number("timeout_s"),
            max_input_tokens: self.whole("max_input_tokens"),
            max_output_tokens: self.whole("max_output_tokens"),
            max_cost_usd: self.number("max_cost_usd"),
            on_worker_loss: self.text("on_worker_loss").and_then(|(_, word)| match word {
                "fail" => Some(OnWorkerLoss::Fail),
                "resume" => Some(OnWorkerLoss::Resume),
                _ => None,
            }),
            inheritance: self.settings.get("inheritance").and_then(ecs::inheritance),
            may_delegate: self.settings.get("may_delegate").map(|node| node.value == Value::Flag(true)),
            ..AgentDraft::default()
        }
    }

    fn define(&mut self, draft: AgentDraft) -> Option<AgentDefinition> {
        let ceiling = self.known.max_turns_ceiling;
        if let (Some(wanted), Some(node)) = (draft.max_turns, self.settings.get("max_turns"))
            && wanted > i64::from(ceiling)
        {
            let place = node.place.clone();
            let text = format!("is {wanted}, and limits.max_turns_ceiling makes it {ceiling}");
            self.warning(&place, "max_turns", text);
        }
        let source = self.source.clone();
        let tokens = draft.system_prompt.as_deref().map_or(0, estimate_tokens);
        if tokens > MAX_PROMPT_TOKENS {
            let text = format!("has about {tokens} tokens, which every turn pays for");
            self.warning(&source, "system_prompt", text);
        }
        // The operator's own prompts may be long: existing folders are not refused.
        let limits = DefinitionLimits { max_turns: ceiling, max_prompt_tokens: None, may_delegate: true };
        match draft.check(&limits) {
            Ok(definition) => Some(definition),
            Err(refusal) => {
                self.findings.error(&source, self.table, refusal.message);
                None
            }
        }
    }
}

/// The nearest name that is allowed.
fn allowed_form(name: &str) -> Option<String> {
    let words: Vec<String> = name
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    let mut form = words.join("-");
    form.truncate(64);
    check_agent_name(&form).is_ok().then_some(form)
}

/// What a tool of `.claude/agents` is called here.
pub(super) fn our_name(written: &str, tools: &ToolNames) -> Result<String, String> {
    let name = match written {
        "Read" => "read_file",
        "Glob" | "LS" => "list_files",
        "Grep" => "search_files",
        "WebFetch" => "fetch",
        "Task" | "Agent" => SUBAGENT,
        other => other,
    };
    if let Some(rest) = name.strip_prefix("mcp__") {
        return match rest.split_once("__") {
            Some((server, tool)) if tools.servers.contains(server) => Ok(format!("{server}__{tool}")),
            Some((server, _)) => Err(format!("there is no tools.mcp.{server}")),
            None => Err("tools are named one by one".to_owned()),
        };
    }
    // One that is limited to some arguments, as in Read(src/**), could do more here.
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-') {
        return Err("there is nothing like it here".to_owned());
    }
    // The other program's own tools are written so; that an MCP server has one of that name would be chance.
    if name.starts_with(|c: char| c.is_ascii_uppercase()) && tools.find(name) != Found::Here {
        return Err("there is nothing like it here".to_owned());
    }
    Ok(name.to_owned())
}

/// Files for other programs have line ends as `\n` in a line of YAML that does not know them.
pub(super) fn one_line(text: &str) -> String {
    text.replace("\\n", " ").split_whitespace().collect::<Vec<_>>().join(" ")
}
