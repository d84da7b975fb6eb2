//! What a session carries of its orchestrator: given when it is made, changed and shown later.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Map, Value, json};

use crate::commands::reach::{Reach, show};
use crate::exit::{Exit, examples};

/// What agents may inherit, and which tools tasks may use.
#[derive(Debug, Args)]
pub(super) struct Carried {
    /// The orchestrator's system prompt, for agents that inherit it
    #[arg(long, value_name = "TEXT")]
    system_prompt: Option<String>,

    /// A tool of the orchestrator's, for agents that inherit it; may be said again
    #[arg(long = "tool", value_name = "TOOL")]
    tools: Vec<String>,

    /// A skill of the orchestrator's; may be said again
    #[arg(long = "skill", value_name = "SKILL")]
    skills: Vec<String>,

    /// Let tasks use only tools that fit one of these; * is any text
    #[arg(long, value_name = "PATTERN")]
    allow: Vec<String>,

    /// Let no task use tools that fit one of these
    #[arg(long, value_name = "PATTERN")]
    deny: Vec<String>,
}

impl Carried {
    /// As a body has it; what was not said is not there.
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

/// Show a session: what it carries, its limits, what it has spent
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant sessions show nightly\n"))]
pub(super) struct Show {
    #[arg(value_name = "SESSION")]
    session: String,

    #[command(flatten)]
    reach: Reach,
}

/// Change what a session carries
///
/// It counts for tasks that are spawned from now on.
#[derive(Debug, Args)]
#[command(after_long_help = examples!("  adjutant sessions change nightly --deny '*write*'
  adjutant sessions change nightly --clear permissions --model main
"))]
pub(super) struct Change {
    #[arg(value_name = "SESSION")]
    session: String,

    /// The model of its agents that name none
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,

    #[command(flatten)]
    carried: Carried,

    /// Take this away; may be said again
    #[arg(long, value_name = "FIELD", value_parser = ["model", "metadata", "system_prompt", "tools", "skills", "permissions"])]
    clear: Vec<String>,

    #[command(flatten)]
    reach: Reach,
}

pub(super) async fn show_one(arguments: Show) -> anyhow::Result<ExitCode> {
    let client = arguments.reach.client()?;
    let answer = client.get(&["v1", "sessions", &arguments.session], Vec::new()).await?;
    show(&client, &answer, || as_lines(&answer.value))?;
    Ok(Exit::Done.into())
}

pub(super) async fn change(arguments: Change) -> anyhow::Result<ExitCode> {
    let client = arguments.reach.client()?;
    let mut body: Map<String, Value> =
        arguments.clear.into_iter().map(|field| (field, Value::Null)).collect();
    body.extend(arguments.model.map(|model| ("model".to_owned(), json!(model))));
    body.extend(arguments.carried.fields());
    let answer = client.patch(&["v1", "sessions", &arguments.session], Value::Object(body)).await?;
    show(&client, &answer, || as_lines(&answer.value))?;
    Ok(Exit::Done.into())
}

/// A line for each field that says something.
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
    fn what_is_not_said_is_not_sent() {
        let none =
            Carried { system_prompt: None, tools: vec![], skills: vec![], allow: vec![], deny: vec![] };
        assert_eq!(none.fields(), Map::new());
        let some = Carried {
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
