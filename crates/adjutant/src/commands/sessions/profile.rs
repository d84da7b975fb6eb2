//! The profile of a session: what its agents inherit, and the tools that its tasks may use.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Map, Value, json};

use crate::commands::server_args::{ServerArgs, print_answer};
use crate::exit::{Exit, examples};

#[derive(Debug, Args)]
pub(super) struct SessionProfile {
    /// The orchestrator's system prompt, for agents that inherit it
    #[arg(long, value_name = "TEXT")]
    system_prompt: Option<String>,

    /// A tool of the orchestrator, for agents that inherit it; can be repeated
    #[arg(long = "tool", value_name = "TOOL")]
    tools: Vec<String>,

    /// A skill of the orchestrator; can be repeated
    #[arg(long = "skill", value_name = "SKILL")]
    skills: Vec<String>,

    /// Allow tasks only tools that match a pattern; * matches any text
    #[arg(long, value_name = "PATTERN")]
    allow: Vec<String>,

    /// Forbid tasks tools that match a pattern
    #[arg(long, value_name = "PATTERN")]
    deny: Vec<String>,
}

impl SessionProfile {
    /// The fields of the request's body; options that were not given are left out.
    pub(super) fn fields(self) -> Map<String, Value> {
        let mut fields = Map::new();
        fields.extend(self.system_prompt.map(|prompt| ("system_prompt".to_owned(), json!(prompt))));
        for (name, list) in [("tools", self.tools), ("skills", self.skills)] {
            if !list.is_empty() {
                fields.insert(name.to_owned(), json!(list));
            }
        }
        if !self.allow.is_empty() || !self.deny.is_empty() {
            let allow = Some(self.allow).filter(|patterns| !patterns.is_empty());
            fields.insert("permissions".to_owned(), json!({"allow": allow, "deny": self.deny}));
        }
        fields
    }
}

/// Show a session: its profile, limits and costs
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant sessions show nightly\n"))]
pub(super) struct Show {
    /// The name of the session
    #[arg(value_name = "SESSION")]
    session: String,

    #[command(flatten)]
    server: ServerArgs,
}

/// Change the profile of a session
///
/// The change applies to tasks that are spawned afterwards.
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant sessions change nightly --deny '*write*'
  adjutant sessions change nightly --clear permissions --model main
"))]
pub(super) struct Change {
    /// The name of the session
    #[arg(value_name = "SESSION")]
    session: String,

    /// The model of agents that set none
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,

    #[command(flatten)]
    profile: SessionProfile,

    /// Clear this field; can be repeated
    #[arg(long, value_name = "FIELD", value_parser = ["model", "metadata", "system_prompt", "tools", "skills", "permissions"])]
    clear: Vec<String>,

    #[command(flatten)]
    server: ServerArgs,
}

pub(super) async fn show_one(arguments: Show) -> anyhow::Result<ExitCode> {
    let client = arguments.server.client()?;
    let answer = client.get(&["v1", "sessions", &arguments.session], Vec::new()).await?;
    print_answer(&client, &answer, || as_lines(&answer.value))?;
    Ok(Exit::Done.into())
}

pub(super) async fn change(arguments: Change) -> anyhow::Result<ExitCode> {
    let client = arguments.server.client()?;
    let mut body: Map<String, Value> =
        arguments.clear.into_iter().map(|field| (field, Value::Null)).collect();
    body.extend(arguments.model.map(|model| ("model".to_owned(), json!(model))));
    body.extend(arguments.profile.fields());
    let answer = client.patch(&["v1", "sessions", &arguments.session], Value::Object(body)).await?;
    print_answer(&client, &answer, || as_lines(&answer.value))?;
    Ok(Exit::Done.into())
}

/// One line for each field that is set.
fn as_lines(session: &Value) -> String {
    let fields = session.as_object().into_iter().flatten();
    let lines = fields.filter(|(_, value)| !value.is_null()).map(|(name, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("{name:<18} {text}")
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_are_not_given_are_not_sent() {
        let none = SessionProfile {
            system_prompt: None,
            tools: vec![],
            skills: vec![],
            allow: vec![],
            deny: vec![],
        };
        assert_eq!(none.fields(), Map::new());
        let some = SessionProfile {
            system_prompt: Some("Verify.".to_owned()),
            tools: vec!["fetch".to_owned()],
            skills: vec![],
            allow: vec![],
            deny: vec!["pay*".to_owned()],
        };
        let expected = json!({"system_prompt": "Verify.", "tools": ["fetch"], "permissions": {"allow": null, "deny": ["pay*"]}});
        assert_eq!(Value::Object(some.fields()), expected);
    }

    #[test]
    fn a_session_is_shown_line_by_line() {
        let session = json!({"session_id": "s", "model": null, "tools": ["fetch"]});
        assert_eq!(as_lines(&session), "session_id         s\ntools              [\"fetch\"]");
    }
}
