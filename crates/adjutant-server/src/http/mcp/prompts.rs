//! The prompts of the server: one, about how to delegate.

use adjutant_agent::{Refusal, prompts};
use rmcp::ErrorData;
use rmcp::model::{
    GetPromptRequestParams, GetPromptResponse, GetPromptResult, Prompt, PromptArgument,
    PromptMessage, Role,
};
use serde_json::Value;

use super::sessions::SessionSource;
use super::{McpRequest, McpServer, error_data};
use crate::{Dialect, Result, Scope};

const ORCHESTRATOR: &str = "orchestrator";
const DESCRIPTION: &str =
    "What an orchestrator should know to delegate well, with the agents that there are";

/// The prompts of a dialect. The prompt is about the tools of `spec`, so other dialects have none.
pub(super) fn all(dialect: Dialect) -> Vec<Prompt> {
    if dialect != Dialect::Spec {
        return Vec::new();
    }
    let session = PromptArgument::new("session_id")
        .with_description("The session whose agents are listed; yours if you name none.")
        .with_required(false);
    let prompt = Prompt::new(ORCHESTRATOR, Some(DESCRIPTION), Some(vec![session]));
    vec![prompt.with_title("How to delegate")]
}

impl McpServer {
    pub(super) async fn prompt(
        &self,
        params: GetPromptRequestParams,
        request: &McpRequest,
    ) -> Result<GetPromptResponse, ErrorData> {
        let known = all(self.dialect);
        if !known.iter().any(|prompt| prompt.name == params.name) {
            let names: Vec<_> = known.iter().map(|prompt| prompt.name.as_str()).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Err(ErrorData::invalid_params(
                format!("There is no such prompt; there is {names}"),
                None,
            ));
        }
        let arguments = Value::Object(params.arguments.unwrap_or_default());
        let text = self.orchestrator_prompt(arguments, request).await.map_err(error_data)?;
        let message = PromptMessage::new_text(Role::User, text);
        Ok(GetPromptResult::new(vec![message]).with_description(DESCRIPTION).into())
    }

    /// The prompt with the agents of the session. A client without a session gets a new one, and
    /// the prompt names it.
    async fn orchestrator_prompt(
        &self,
        mut arguments: Value,
        request: &McpRequest,
    ) -> Result<String> {
        let caller = &request.caller;
        let session = SessionSource::take(&mut arguments, "session_id", &request.session_headers)?;
        if let Some(name) = arguments.as_object().and_then(|left| left.keys().next()) {
            return Err(Refusal::invalid(name, "is not an argument of this prompt").into());
        }
        let session = match session {
            Some(session @ SessionSource::Argument(_)) => {
                caller.require(&[Scope::Delegate, Scope::Read])?;
                session
            }
            Some(session @ (SessionSource::Header(_) | SessionSource::Created(_))) => {
                caller.require(&[Scope::Delegate])?;
                self.shared.ensure_session(caller, session.name()).await?;
                session
            }
            None => {
                caller.require(&[Scope::Delegate])?;
                self.shared.create_session(caller).await?
            }
        };
        let store = &self.shared.service.store_of(caller);
        let found = store.session(&caller.tenant, session.name()).await?;
        let agents = store.agents(found.id).await?;
        let agents = agents.iter().map(|agent| &agent.definition);
        let mut prompt = prompts::orchestrator_prompt(
            agents.map(|agent| (agent.name.as_str(), agent.description.as_str())),
        );
        if let SessionSource::Created(name) = &session {
            prompt.push_str(&format!(
                "\nGive the session_id {name:?} with every call of subagent and shared_context.\n"
            ));
        }
        Ok(prompt)
    }
}
