use adjutant_agent::{ActionForm, AgentConfig, Fields, Refusal, TaskNumber};
use serde_json::{Map, Value, json};

use super::artifacts;
use super::snapshot::SnapshotSummary;
use crate::METADATA_DIALECT;
use crate::task_handle::task_to_wait_for;

/// The version of the snapshot format. Calls that expect another version are refused.
pub const SNAPSHOT_VERSION: &str = "1";

pub(super) const MAX_INSTRUCTIONS: usize = 2_000;
pub(super) const MAX_ARTIFACT: usize = 160;
/// The most expected artifacts. The source has no limit.
pub(super) const MAX_ARTIFACTS: usize = 100;
/// The same as in `spec`.
const MAX_STEP: usize = 200;

/// The metadata fields with the prompt that the task was dispatched to.
pub(super) const PROMPT_NS: &str = "prompt_ns";
pub(super) const PROMPT_KEY: &str = "prompt_key";

pub(super) const FORM: ActionForm = ActionForm {
    required: &["mode", PROMPT_NS, PROMPT_KEY, "instructions"],
    optional: &["expected_artifacts", "plan_step_id", "snapshot_version", "task_id"],
};

adjutant_agent::word_enum! {
    /// Why a child is dispatched.
    Mode {
        PlanStep = "plan_step",
        AdHoc = "ad_hoc",
    }
}

/// A call with valid arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    New(Box<Dispatch>),
    /// Waits again for the task of an earlier call.
    WaitAgain(TaskNumber),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dispatch {
    pub mode: Mode,
    pub prompt_ns: String,
    pub prompt_key: String,
    /// Trimmed.
    pub instructions: String,
    pub expected_artifacts: Vec<String>,
    /// Required in every step of a plan.
    pub plan_step_id: Option<String>,
}

impl Call {
    pub fn parse(arguments: &Value) -> Result<Self, Refusal> {
        let mut fields = Fields::of(arguments)?;
        fields.refuse_unknown(&[FORM])?;
        if let Some(task) = task_to_wait_for(&mut fields)? {
            return Ok(Self::WaitAgain(task));
        }
        let mode = mode(&mut fields)?;
        let prompt_ns = fields.non_empty_text(PROMPT_NS)?.to_owned();
        let prompt_key = fields.non_empty_text(PROMPT_KEY)?.to_owned();
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
    labels
        .map(|(place, label)| ascii(&format!("expected_artifacts[{place}]"), label, MAX_ARTIFACT))
        .collect()
}

/// Used in a step of a plan; in other modes it is only validated.
fn plan_step_id(fields: &mut Fields, mode: Mode) -> Result<Option<String>, Refusal> {
    let step = fields
        .optional_text("plan_step_id")?
        .map(|step| ascii("plan_step_id", step, MAX_STEP))
        .transpose()?;
    match (mode, step) {
        (Mode::PlanStep, None) => {
            Err(Refusal::invalid("plan_step_id", "is required when mode is plan_step"))
        }
        (Mode::PlanStep, step) => Ok(step),
        (Mode::AdHoc, _) => Ok(None),
    }
}

fn snapshot_version(fields: &mut Fields) -> Result<(), Refusal> {
    match fields.optional_text("snapshot_version")? {
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

/// A trimmed text.
fn ascii(name: &str, text: &str, longest: usize) -> Result<String, Refusal> {
    let text = text.trim();
    if text.is_ascii() && (1..=longest).contains(&text.len()) {
        return Ok(text.to_owned());
    }
    Err(Refusal::invalid(
        name,
        format_args!("must have 1 to {longest} characters, all of them ASCII"),
    ))
}

impl Dispatch {
    /// The name of the agent that stands for the prompt.
    pub fn agent(&self) -> String {
        format!("{}--{}", self.prompt_ns, self.prompt_key)
    }

    /// The child's configuration: the agent with every tool of its parent, and the dispatch in its
    /// prompt.
    pub(super) fn agent_config(
        &self,
        agent: AgentConfig,
        parent_tools: Vec<String>,
        model: String,
        snapshot: &SnapshotSummary,
    ) -> AgentConfig {
        let notes = self.notes(snapshot);
        let system_prompt = format!("{}\n\n{notes}", agent.system_prompt.trim_end());
        AgentConfig { system_prompt, tools: parent_tools, model, private_context: true, ..agent }
    }

    fn notes(&self, snapshot: &SnapshotSummary) -> String {
        let mut notes = String::new();
        if let Some(step) = &self.plan_step_id {
            notes.push_str(&format!("You work on step {step} of a plan.\n\n"));
        }
        notes.push_str(&format!(
            "The shared context that you see is a snapshot (version {SNAPSHOT_VERSION}), taken when you were called. {snapshot}"
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

    /// The metadata that the answer is rendered from and that identifies the step of the plan.
    pub fn metadata(&self) -> Map<String, Value> {
        let mut metadata = Map::from_iter([
            (METADATA_DIALECT.to_owned(), json!("weakincentives")),
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
