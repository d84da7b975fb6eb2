use adjutant_agent::{Refusal, prompts};
use rmcp::ErrorData;
use rmcp::model::{
    GetPromptRequestParams, GetPromptResponse, GetPromptResult, Prompt, PromptArgument,
    PromptMessage, Role,
};
use serde_json::Value;

use super::sessions::Place;
use super::{Mcp, McpRequest, fault};
use crate::{Dialect, Result, Scope};

const ORCHESTRATOR: &str = "orchestrator";
const ABOUT: &str =
    "What an orchestrator should know to delegate well, with the agents that there are";

/// It is about our own tools, so clients of other dialects have none.
pub(super) fn all(dialect: Dialect) -> Vec<Prompt> {
    if dialect != Dialect::Spec {
        return Vec::new();
    }
    let session = PromptArgument::new("session_id")
        .with_description("The session whose agents are listed; yours if you name none.")
        .with_required(false);
    vec![Prompt::new(ORCHESTRATOR, Some(ABOUT), Some(vec![session])).with_title("How to delegate")]
}

impl Mcp {
    pub(super) async fn prompt(
        &self,
        request: GetPromptRequestParams,
        visit: &McpRequest<'_>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let known = all(self.dialect);
        if !known.iter().any(|prompt| prompt.name == request.name) {
            let names: Vec<_> = known.iter().map(|prompt| prompt.name.as_str()).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Err(ErrorData::invalid_params(
                format!("There is no such prompt; there is {names}"),
                None,
            ));
        }
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let text = self.orchestrator_prompt(arguments, visit).await.map_err(fault)?;
        let message = PromptMessage::new_text(Role::User, text);
        Ok(GetPromptResult::new(vec![message]).with_description(ABOUT).into())
    }

    /// A client without a session gets one, and is told its name.
    async fn orchestrator_prompt(
        &self,
        mut arguments: Value,
        visit: &McpRequest<'_>,
    ) -> Result<String> {
        let place = Place::take(&mut arguments, "session_id", visit.whereabouts)?;
        if let Some(name) = arguments.as_object().and_then(|left| left.keys().next()) {
            return Err(Refusal::invalid(name, "is not an argument of this prompt").into());
        }
        let place = match place {
            Some(Place::Named(name)) => {
                visit.caller.needs(&[Scope::Delegate, Scope::Read])?;
                Place::Named(name)
            }
            Some(Place::Own(name) | Place::New(name)) => {
                visit.caller.needs(&[Scope::Delegate])?;
                self.shared.open_session(visit.caller, &name).await?;
                Place::Own(name)
            }
            None => {
                visit.caller.needs(&[Scope::Delegate])?;
                self.shared.open_new_session(visit.caller).await?
            }
        };
        let store = &self.shared.service.store;
        let session = store.session(&visit.caller.tenant, place.name()).await?;
        let agents = store.agents(session.id).await?;
        let agents = agents.iter().map(|agent| &agent.definition);
        let mut prompt = prompts::orchestrator_prompt(
            agents.map(|agent| (agent.name.as_str(), agent.description.as_str())),
        );
        if let Place::New(name) = &place {
            prompt.push_str(&format!(
                "\nGive the session_id {name:?} with every call of subagent and shared_context.\n"
            ));
        }
        Ok(prompt)
    }
}
