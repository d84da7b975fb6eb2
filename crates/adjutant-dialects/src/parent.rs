use adjutant_agent::SHARED_CONTEXT;

use crate::context::{Context, SessionRef};
use crate::{Dialect, Result};

/// What the children of a session's orchestrator inherit.
pub(crate) struct Parent {
    /// The tools of the session; if it has none, every tool that a worker has announced, and the
    /// shared context. None of them delegates, and the caller may use all of them.
    pub(crate) tools: Vec<String>,
    /// The model of the session, or of the config.
    pub(crate) model: String,
}

/// Whether a tool of some dialect delegates.
pub(crate) fn delegates(tool: &str) -> bool {
    Dialect::ALL.iter().any(|dialect| dialect.delegation_tools().contains(&tool))
}

impl Context<'_> {
    pub(crate) async fn parent(&self, session: &SessionRef<'_>) -> Result<Parent> {
        let details = self.store.session_details(session.tenant, session.name).await?;
        let mut tools = details.parent.tools;
        if tools.is_empty() {
            tools.extend(self.store.tools().await?.into_iter().map(|tool| tool.name));
            tools.push(SHARED_CONTEXT.to_owned());
        }
        tools.retain(|name| !delegates(name) && self.grants().allows_tool(name));
        tools.sort_unstable();
        tools.dedup();
        let model = details.model.unwrap_or_else(|| self.policy.operator.default_model.clone());
        Ok(Parent { tools, model })
    }
}

#[cfg(test)]
mod tests {
    use adjutant_agent::TextLimits;

    use super::*;

    #[test]
    fn every_tool_of_every_dialect_delegates_except_for_the_shared_context() {
        for dialect in Dialect::ALL {
            for tool in dialect.tools(&TextLimits::DEFAULT) {
                assert_eq!(delegates(&tool.name), tool.name != SHARED_CONTEXT, "{}", tool.name);
            }
        }
    }
}
