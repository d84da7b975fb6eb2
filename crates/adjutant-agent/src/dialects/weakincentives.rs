//! `dispatch_subagent` of seed 004: instructions for a prompt of the registry, a snapshot of what the parent knows, and a summary with
//! what was delivered. Nothing of the child's own state is left when it ends.

mod artifacts;

use serde_json::{Map, Value, json};

use super::go_on::{ABOUT_TASK_ID, how_to_go_on, task_to_go_on_with};
use super::spec::CANCELLED;
use super::{Answer, DIALECT, EndedTask};
use crate::fields::Fields;
use crate::words::words;
use crate::{ActionForm, AgentSpec, Outcome, Refusal, Replay, TaskNumber, ToolDefinition};

pub const DISPATCH_SUBAGENT: &str = "dispatch_subagent";

/// The form that snapshots have. A caller that counts on another one is refused before anything is made.
pub const SNAPSHOT_VERSION: &str = "1";

const MAX_INSTRUCTIONS: usize = 2_000;
const MAX_ARTIFACT: usize = 160;
/// The source has no limit; a list of deliverables this long is none.
const MAX_ARTIFACTS: usize = 100;
/// As long as labels are everywhere.
const MAX_STEP: usize = 200;

/// Where a task says, in its metadata, which prompt it was dispatched to.
const PROMPT_NS: &str = "prompt_ns";
const PROMPT_KEY: &str = "prompt_key";

const FORM: ActionForm = ActionForm {
    needed: &["mode", PROMPT_NS, PROMPT_KEY, "instructions"],
    optional: &["expected_artifacts", "plan_step_id", "snapshot_version", "task_id"],
};

words! {
    /// Why a child is dispatched.
    Mode {
        PlanStep = "plan_step",
        AdHoc = "ad_hoc",
    }
}

/// A call whose arguments are all that they should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    New(Box<Dispatch>),
    /// Wait again for a task that an earlier call was about.
    GoOn(TaskNumber),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dispatch {
    pub mode: Mode,
    pub prompt_ns: String,
    pub prompt_key: String,
    /// Without the blanks around it.
    pub instructions: String,
    pub expected_artifacts: Vec<String>,
    /// There in every step of a plan.
    pub plan_step_id: Option<String>,
}

impl Call {
    pub fn parse(arguments: &Value) -> Result<Self, Refusal> {
        let mut fields = Fields::of(arguments)?;
        fields.only(&[FORM])?;
        if let Some(task) = task_to_go_on_with(&mut fields)? {
            return Ok(Self::GoOn(task));
        }
        let mode = mode(&mut fields)?;
        let prompt_ns = fields.filled(PROMPT_NS)?.to_owned();
        let prompt_key = fields.filled(PROMPT_KEY)?.to_owned();
        let instructions = ascii("instructions", fields.text("instructions")?, MAX_INSTRUCTIONS)?;
        let expected_artifacts = expected_artifacts(&mut fields)?;
        let plan_step_id = plan_step_id(&mut fields, mode)?;
        snapshot_version(&mut fields)?;
        Ok(Self::New(Box::new(Dispatch {
            mode,
            prompt_ns,
            prompt_key,
            instructions,
            expected_artifacts,
            plan_step_id,
        })))
    }
}

fn mode(fields: &mut Fields) -> Result<Mode, Refusal> {
    let known: Vec<&str> = Mode::ALL.iter().map(|mode| mode.as_str()).collect();
    fields
        .text("mode")?
        .parse()
        .map_err(|_| Refusal::invalid("mode", format_args!("must be one of: {}", known.join(", "))))
}

fn expected_artifacts(fields: &mut Fields) -> Result<Vec<String>, Refusal> {
    let labels = fields.texts("expected_artifacts")?.unwrap_or_default();
    if labels.len() > MAX_ARTIFACTS {
        return Err(Refusal::invalid(
            "expected_artifacts",
            format_args!("must be at most {MAX_ARTIFACTS}, not {}", labels.len()),
        ));
    }
    let labels = labels.into_iter().enumerate();
    labels.map(|(place, label)| ascii(&format!("expected_artifacts[{place}]"), label, MAX_ARTIFACT)).collect()
}

/// It counts in a step of a plan; elsewhere it only has to be one.
fn plan_step_id(fields: &mut Fields, mode: Mode) -> Result<Option<String>, Refusal> {
    let step =
        fields.text_if_any("plan_step_id")?.map(|step| ascii("plan_step_id", step, MAX_STEP)).transpose()?;
    match (mode, step) {
        (Mode::PlanStep, None) => Err(Refusal::invalid("plan_step_id", "is required when mode is plan_step")),
        (Mode::PlanStep, step) => Ok(step),
        (Mode::AdHoc, _) => Ok(None),
    }
}

fn snapshot_version(fields: &mut Fields) -> Result<(), Refusal> {
    match fields.text_if_any("snapshot_version")? {
        None | Some(SNAPSHOT_VERSION) => Ok(()),
        Some(other) => {
            let start: String = other.chars().take(64).collect();
            let why = format_args!(
                "a snapshot of version {start:?} cannot be made; they have version {SNAPSHOT_VERSION:?}"
            );
            Err(Refusal::invalid("snapshot_version", why))
        }
    }
}

/// A text without the blanks around it.
fn ascii(name: &str, text: &str, longest: usize) -> Result<String, Refusal> {
    let text = text.trim();
    if text.is_ascii() && (1..=longest).contains(&text.len()) {
        return Ok(text.to_owned());
    }
    Err(Refusal::invalid(name, format_args!("must have 1 to {longest} characters, all of them ASCII")))
}

impl Dispatch {
    /// The name that the prompt has as an agent.
    pub fn agent(&self) -> String {
        format!("{}--{}", self.prompt_ns, self.prompt_key)
    }

    /// What the child is: the agent, with every tool of its parent, and what it has to know of the dispatch.
    pub fn spec(&self, agent: AgentSpec, parent_tools: Vec<String>, model: String) -> AgentSpec {
        let system_prompt = format!("{}\n\n{}", agent.system_prompt.trim_end(), self.notes());
        AgentSpec { system_prompt, tools: parent_tools, model, ..agent }
    }

    fn notes(&self) -> String {
        let mut notes = String::new();
        if let Some(step) = &self.plan_step_id {
            notes.push_str(&format!("You work on step {step} of a plan.\n\n"));
        }
        notes.push_str(&format!(
            "The shared context that you see is a snapshot (version {SNAPSHOT_VERSION}), taken when you were called. What you write there ends with you: whatever your caller has to know belongs into your answer."
        ));
        if !self.expected_artifacts.is_empty() {
            notes.push_str(&format!(
                "\n\nYou are expected to deliver:\n{}\n\n{}",
                artifacts::list(&self.expected_artifacts),
                artifacts::HOW_TO_LIST
            ));
        }
        notes
    }

    /// What the task remembers for its answer, and for whoever keeps the plan.
    pub fn metadata(&self) -> Map<String, Value> {
        let mut metadata = Map::from_iter([
            (DIALECT.to_owned(), json!("weakincentives")),
            ("mode".to_owned(), json!(self.mode.as_str())),
            (PROMPT_NS.to_owned(), json!(self.prompt_ns)),
            (PROMPT_KEY.to_owned(), json!(self.prompt_key)),
            ("snapshot_version".to_owned(), json!(SNAPSHOT_VERSION)),
        ]);
        if let Some(step) = &self.plan_step_id {
            metadata.insert("plan_step_id".to_owned(), json!(step));
        }
        if !self.expected_artifacts.is_empty() {
            metadata.insert("expected_artifacts".to_owned(), json!(self.expected_artifacts));
        }
        metadata
    }
}

/// The child's summary and what it delivered, or why there is none. `tools_used` is as [`crate::tools_used`] gives it.
pub fn ended(task: &EndedTask, tools_used: &[String]) -> Answer {
    match &task.outcome {
        Outcome::Completed { result, summary } => {
            let (said, artifacts) = artifacts::split(result);
            let summary = summary.as_deref().unwrap_or(said);
            let value = json!({
                "success": true,
                "message": summary,
                PROMPT_NS: task.metadata.get(PROMPT_NS),
                PROMPT_KEY: task.metadata.get(PROMPT_KEY),
                "message_summary": summary,
                "artifacts": artifacts,
                "tools_used": tools_used,
            });
            Answer { value, ..Answer::plain(summary) }
        }
        Outcome::Failed { error, .. } => aborted(error),
        Outcome::Cancelled { .. } => aborted(CANCELLED),
    }
}

/// The answer to who has waited as long as a call may take.
pub fn goes_on(task: TaskNumber) -> Answer {
    let message = format!("The subagent has not ended yet. {}", how_to_go_on(DISPATCH_SUBAGENT, task));
    let value = json!({"message": message, "task_id": task.to_string()});
    Answer { value, ..Answer::plain(message) }.of_what_goes_on()
}

/// The answer to arguments that are not what they should be, a prompt that is not there, and a snapshot that cannot be made.
pub fn invalid(refusal: &Refusal) -> Answer {
    failure("ToolValidationError", &refusal.message)
}

/// The answer to a call that cannot be granted for another reason; nothing ran.
pub fn refused(refusal: &Refusal) -> Answer {
    failure(refusal.code.as_str(), &refusal.message)
}

/// The run was begun, and did not come to an answer.
fn aborted(error: &str) -> Answer {
    failure("DispatchSubagentError", &format!("Subagent execution failed: {error}"))
}

/// A message, and no result.
fn failure(error: &str, message: &str) -> Answer {
    let value = json!({"success": false, "error": error, "message": message});
    Answer { value, ..Answer::plain(message) }.as_error()
}

pub fn tool() -> ToolDefinition {
    ToolDefinition {
        name: DISPATCH_SUBAGENT.to_owned(),
        description: "Gives a piece of work to an isolated subagent with every tool that you have, waits for it, and returns its summary. It starts with a snapshot of the shared context and sees nothing of this conversation; what it changes there ends with it. Use it for a step of your plan that needs a deep look, or when this conversation grows long.".to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": {
                "mode": {"type": "string", "enum": Mode::ALL.iter().map(|mode| mode.as_str()).collect::<Vec<_>>(), "description": "plan_step for a step of your plan, ad_hoc for anything else."},
                PROMPT_NS: {"type": "string", "minLength": 1, "description": "The namespace of the prompt that the subagent runs; the agent is called {prompt_ns}--{prompt_key}."},
                PROMPT_KEY: {"type": "string", "minLength": 1, "description": "The key of that prompt."},
                "instructions": {"type": "string", "minLength": 1, "description": format!("What it is to do, with all that it has to know: ASCII, at most {MAX_INSTRUCTIONS} characters.")},
                "expected_artifacts": {"type": ["array", "null"], "items": {"type": "string", "minLength": 1}, "maxItems": MAX_ARTIFACTS, "description": format!("What it is to deliver, each in ASCII and at most {MAX_ARTIFACT} characters.")},
                "plan_step_id": {"type": ["string", "null"], "description": "The step of your plan; required when mode is plan_step."},
                "snapshot_version": {"type": ["string", "null"], "description": format!("The form of snapshot that you count on; leave it out, or give {SNAPSHOT_VERSION:?}.")},
                "task_id": {"type": ["string", "null"], "description": ABOUT_TASK_ID},
            },
            "required": FORM.needed,
            "additionalProperties": false,
        }),
        replay: Replay::Unsafe,
    }
}

#[cfg(test)]
mod tests;
