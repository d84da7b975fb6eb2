use adjutant_agent::{
    AgentDraft, Compaction, Fields, MissingTools, OnBudget, OnWorkerLoss, Refusal, check_agent_name,
};
use serde_json::{Map, Value};

/// `define`: an agent as the caller writes it. Its texts and limits are checked after it has
/// inherited from the agent that it extends.
#[derive(Debug, Clone, PartialEq)]
pub struct DefineCall {
    pub draft: AgentDraft,
    /// Replaces the session's agent of this name.
    pub replace: bool,
}

impl DefineCall {
    pub(super) fn read(fields: &mut Fields) -> Result<Self, Refusal> {
        let name = fields.take("name").map(|value| {
            value.as_str().ok_or_else(|| Refusal::invalid("name", "must be a string"))
        });
        let name = name.transpose()?.ok_or_else(|| Refusal::invalid("name", "is required"))?;
        check_agent_name(name)?;
        let mut text = |field| fields.optional_text(field).map(|text| text.map(str::to_owned));
        let draft = AgentDraft {
            name: name.to_owned(),
            description: text("description")?,
            system_prompt: text("system_prompt")?,
            extends: text("extends")?,
            system_prompt_append: text("system_prompt_append")?,
            model: text("model")?,
            summary_prompt: text("summary_prompt")?,
            tools: fields
                .texts("tools")?
                .map(|names| names.into_iter().map(str::to_owned).collect()),
            max_turns: fields.integer("max_turns")?,
            timeout_s: fields.number("timeout_s")?,
            max_input_tokens: fields.integer("max_input_tokens")?,
            max_output_tokens: fields.integer("max_output_tokens")?,
            max_cost_usd: fields.number("max_cost_usd")?,
            on_budget: OnBudget::take_from(fields)?,
            on_worker_loss: on_worker_loss(fields)?,
            may_delegate: fields.boolean("may_delegate")?,
            extra_body: extra_body(fields)?,
            compaction: compaction(fields)?,
            missing_tools: missing_tools(fields)?,
            ..AgentDraft::default()
        };
        Ok(Self { draft, replace: fields.boolean("replace")?.unwrap_or(false) })
    }
}

fn extra_body(fields: &mut Fields) -> Result<Map<String, Value>, Refusal> {
    match fields.take("extra_body") {
        None => Ok(Map::new()),
        Some(Value::Object(body)) => Ok(body.clone()),
        Some(_) => Err(Refusal::invalid("extra_body", "must be an object")),
    }
}

fn compaction(fields: &mut Fields) -> Result<Option<Compaction>, Refusal> {
    let Some(word) = fields.optional_text("compaction")? else { return Ok(None) };
    word.parse().map(Some).map_err(|_| Refusal::invalid("compaction", "must be on or off"))
}

fn missing_tools(fields: &mut Fields) -> Result<Option<MissingTools>, Refusal> {
    let Some(word) = fields.optional_text("missing_tools")? else { return Ok(None) };
    word.parse().map(Some).map_err(|_| Refusal::invalid("missing_tools", "must be wait or ignore"))
}

fn on_worker_loss(fields: &mut Fields) -> Result<Option<OnWorkerLoss>, Refusal> {
    let Some(word) = fields.optional_text("on_worker_loss")? else { return Ok(None) };
    word.parse().map(Some).map_err(|_| Refusal::invalid("on_worker_loss", "must be resume or fail"))
}
