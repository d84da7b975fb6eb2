//! The bodies of requests that create or change a session.

use adjutant_agent::{
    Budget, Fields, Grants, OnBudget, OrchestratorConfig, Permissions, Refusal, SUBAGENT, Skill,
    Webhook, integer_in, nanousd, text_in,
};
use adjutant_store::{NewSession, SessionChange};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{Caller, Policy};

/// The most bytes of a session's metadata, as JSON.
const MAX_METADATA_BYTES: usize = 16 << 10;

/// The most tools and skills of an orchestrator.
const MOST_TOOLS: usize = 500;
pub(super) const MOST_SKILLS: usize = 100;

/// The body of a request that creates a session
#[derive(Debug, PartialEq, ToSchema)]
#[schema(as = NewSession, example = json!({"session_id": "incident-42", "metadata": {"ticket": 42}}))]
pub(super) struct NewSessionBody {
    /// Unique in the tenant; generated if you give none.
    #[schema(min_length = 1, max_length = 255, pattern = "^[^\\u0000]*$", examples("incident-42"))]
    session_id: Option<String>,
    /// The model of agents that name none, by its name in the server's configuration.
    model: Option<String>,
    /// Any JSON object of up to 16 KiB.
    #[schema(value_type = Option<Object>)]
    metadata: Map<String, Value>,
    /// How many of its tasks may be queued or running at a time; at most the server's limit.
    #[schema(value_type = Option<i32>, minimum = 1)]
    max_active: i32,
    /// How many unfinished tasks it may have; at most the server's limit.
    #[schema(value_type = Option<i32>, minimum = 1)]
    max_queued: i32,
    /// For all of its tasks together.
    #[schema(minimum = 0)]
    max_input_tokens: Option<i64>,
    /// For all of its tasks together.
    #[schema(minimum = 0)]
    max_output_tokens: Option<i64>,
    /// For all of its tasks together.
    #[schema(minimum = 0)]
    max_cost_usd: Option<f64>,
    /// What a task does at a budget, unless its spawn, its agent or the root of its tree says it:
    /// `fail` (the default), or `pause` until the budget is raised.
    #[schema(value_type = Option<String>, pattern = "^(fail|pause)$")]
    on_budget: Option<OnBudget>,
    /// The orchestrator's system prompt, for agents that inherit it.
    #[schema(pattern = "^[^\\u0000]*[!-~][^\\u0000]*$")]
    system_prompt: Option<String>,
    /// The names of the orchestrator's tools, for agents that inherit some of them.
    #[schema(value_type = Option<Vec<String>>, max_items = 500)]
    tools: Vec<String>,
    /// The names of the orchestrator's skills. An agent that inherits a tool of a skill gets the
    /// skill.
    #[schema(value_type = Option<Vec<String>>)]
    skills: Vec<Skill>,
    /// Limits the tools of every task of the session.
    permissions: Option<Permissions>,
    /// Receives the ends of its tasks.
    webhook: Option<Webhook>,
}

impl NewSessionBody {
    pub(super) fn parse(body: &Value, policy: &Policy, grants: &Grants) -> Result<Self, Refusal> {
        let mut fields =
            Fields::of(body).map_err(|_| Refusal::invalid("body", "must be an object"))?;
        let session_id = fields.take("session_id").map(|name| text_in("session_id", name));
        let skills = fields.take("skills").map(|value| skills(value, policy, grants));
        let permissions =
            fields.take("permissions").map(|value| Permissions::parse("permissions", value));
        let new = Self {
            session_id: session_id.transpose()?.map(str::to_owned),
            model: fields.take("model").map(|value| model(value, policy, grants)).transpose()?,
            metadata: metadata(fields.take("metadata"))?,
            max_active: at_most(&mut fields, "max_active", policy.sessions.max_active)?,
            max_queued: at_most(&mut fields, "max_queued", policy.sessions.max_queued)?,
            max_input_tokens: tokens(&mut fields, "max_input_tokens")?,
            max_output_tokens: tokens(&mut fields, "max_output_tokens")?,
            max_cost_usd: money(&mut fields, "max_cost_usd")?,
            on_budget: OnBudget::take_from(&mut fields)?,
            system_prompt: fields
                .take("system_prompt")
                .map(|value| system_prompt(value, policy))
                .transpose()?,
            tools: fields.take("tools").map(tools).transpose()?.unwrap_or_default(),
            skills: skills.transpose()?.unwrap_or_default(),
            permissions: permissions.transpose()?,
            webhook: fields
                .take("webhook")
                .map(|value| policy.webhook(value, "webhook"))
                .transpose()?,
        };
        fields.end()?;
        Ok(new)
    }

    pub(super) fn into_session(self, caller: &Caller) -> Result<NewSession, Refusal> {
        let max_cost_nanousd = self.max_cost_usd.map(|usd| nanousd("max_cost_usd", usd));
        Ok(NewSession {
            tenant: caller.tenant.clone(),
            name: self.session_id.unwrap_or_else(|| Uuid::now_v7().to_string()),
            model: self.model,
            max_active: Some(self.max_active),
            max_queued: Some(self.max_queued),
            budget: Budget {
                max_input_tokens: self.max_input_tokens,
                max_output_tokens: self.max_output_tokens,
                max_cost_nanousd: max_cost_nanousd.transpose()?,
            },
            on_budget: self.on_budget,
            metadata: self.metadata,
            parent: OrchestratorConfig {
                system_prompt: self.system_prompt,
                tools: self.tools,
                skills: self.skills,
            },
            permissions: self.permissions,
            webhook: self.webhook,
        })
    }
}

/// The body of a request that raises a budget. At least one limit is required
#[derive(ToSchema)]
#[schema(as = Raise, example = json!({"max_cost_usd": 2}))]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) struct RaiseBody {
    #[schema(minimum = 0)]
    max_input_tokens: Option<i64>,
    #[schema(minimum = 0)]
    max_output_tokens: Option<i64>,
    #[schema(minimum = 0)]
    max_cost_usd: Option<f64>,
}

/// The limits of a raise.
pub(super) fn raise_of(body: &Value) -> Result<Budget, Refusal> {
    let mut fields = Fields::of(body).map_err(|_| Refusal::invalid("body", "must be an object"))?;
    let limits = Budget::take_raise_from(&mut fields)?;
    fields.end()?;
    Ok(limits)
}

/// The fields of a session that a request can change.
pub(super) const CHANGEABLE: [&str; 6] =
    ["model", "metadata", "system_prompt", "tools", "skills", "permissions"];

/// Parses a change of a session. A field that is null is cleared; one that is absent stays.
pub(super) fn parse_change(
    body: &Value,
    policy: &Policy,
    grants: &Grants,
) -> Result<SessionChange, Refusal> {
    let given = body.as_object().ok_or_else(|| Refusal::invalid("body", "must be an object"))?;
    let mut change = SessionChange::default();
    for (field, value) in given {
        let value = Some(value).filter(|value| !value.is_null());
        match field.as_str() {
            "model" => {
                change.model = Some(value.map(|value| model(value, policy, grants)).transpose()?)
            }
            "metadata" => change.metadata = Some(metadata(value)?),
            "system_prompt" => {
                let prompt = value.map(|value| system_prompt(value, policy)).transpose()?;
                change.system_prompt = Some(prompt);
            }
            "tools" => change.tools = Some(value.map(tools).transpose()?.unwrap_or_default()),
            "skills" => {
                change.skills = Some(
                    value
                        .map(|value| skills(value, policy, grants))
                        .transpose()?
                        .unwrap_or_default(),
                );
            }
            "permissions" => {
                let permissions =
                    value.map(|value| Permissions::parse("permissions", value)).transpose()?;
                change.permissions = Some(permissions);
            }
            // A null is an absent field, known or not, as in every body.
            _ if value.is_none() => {}
            _ => return Err(Refusal::invalid(field, "is not a field that can be changed")),
        }
    }
    Ok(change)
}

fn model(value: &Value, policy: &Policy, grants: &Grants) -> Result<String, Refusal> {
    policy.model(filled("model", value)?, grants).map(str::to_owned)
}

fn system_prompt(value: &Value, policy: &Policy) -> Result<String, Refusal> {
    let prompt = filled("system_prompt", value)?;
    policy.operator.texts.check_prompt("system_prompt", prompt)?;
    Ok(prompt.to_owned())
}

/// The names of tools without duplicates, and without `subagent`, which a task does not inherit.
fn tools(value: &Value) -> Result<Vec<String>, Refusal> {
    let mut tools = names("tools", value, MOST_TOOLS)?;
    tools.retain(|tool| tool != SUBAGENT);
    Ok(tools)
}

/// The skills by name, with their current texts from the server's configuration, and with those of
/// their tools that the caller may use.
fn skills(value: &Value, policy: &Policy, grants: &Grants) -> Result<Vec<Skill>, Refusal> {
    let names = names("skills", value, MOST_SKILLS)?;
    let skill = |name: &String| {
        let mut skill = policy.skill("skills", name)?.clone();
        skill.tools.retain(|tool| grants.allows_tool(tool));
        Ok(skill)
    };
    names.iter().map(skill).collect()
}

fn names(field: &str, value: &Value, most: usize) -> Result<Vec<String>, Refusal> {
    let items = value.as_array().ok_or_else(|| Refusal::invalid(field, "must be an array"))?;
    if items.len() > most {
        return Err(Refusal::invalid(field, format_args!("must have at most {most} names")));
    }
    let mut names: Vec<String> = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let field = format!("{field}[{index}]");
        let name = text_in(&field, item)?;
        if name.trim().is_empty() {
            return Err(Refusal::invalid(&field, "must not be empty"));
        }
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

fn filled<'a>(name: &str, value: &'a Value) -> Result<&'a str, Refusal> {
    let text = text_in(name, value)?;
    if text.trim().is_empty() { Err(Refusal::invalid(name, "must not be empty")) } else { Ok(text) }
}

/// A limit that a session may lower; `most` if the body has none.
fn at_most(fields: &mut Fields<'_>, name: &str, most: i32) -> Result<i32, Refusal> {
    let Some(value) = fields.take(name) else { return Ok(most) };
    let wanted = integer_in(value).and_then(|wanted| i32::try_from(wanted).ok());
    wanted.filter(|wanted| (1..=most).contains(wanted)).ok_or_else(|| {
        Refusal::invalid(name, format_args!("must be a whole number from 1 to {most}"))
    })
}

fn tokens(fields: &mut Fields<'_>, name: &str) -> Result<Option<i64>, Refusal> {
    let Some(value) = fields.take(name) else { return Ok(None) };
    let wanted = integer_in(value).filter(|wanted| *wanted >= 0);
    wanted
        .map(Some)
        .ok_or_else(|| Refusal::invalid(name, "must be a whole number that is not negative"))
}

fn money(fields: &mut Fields<'_>, name: &str) -> Result<Option<f64>, Refusal> {
    let Some(value) = fields.take(name) else { return Ok(None) };
    let usd = value.as_f64().map(Some);
    usd.ok_or_else(|| Refusal::invalid(name, "must be a number of US dollars"))
}

fn metadata(value: Option<&Value>) -> Result<Map<String, Value>, Refusal> {
    let Some(value) = value else { return Ok(Map::new()) };
    let map = value.as_object().ok_or_else(|| Refusal::invalid("metadata", "must be an object"))?;
    if value.to_string().len() > MAX_METADATA_BYTES {
        return Err(Refusal::invalid(
            "metadata",
            format_args!("must have at most {MAX_METADATA_BYTES} bytes as JSON"),
        ));
    }
    Ok(map.clone())
}

#[cfg(test)]
mod tests {
    use adjutant_agent::ErrorCode;
    use serde_json::json;

    use super::*;

    fn policy() -> Policy {
        Policy {
            models: vec!["main".to_owned()],
            model_aliases: [("sonnet".to_owned(), "main".to_owned())].into(),
            skills: vec![Skill {
                name: "sql".to_owned(),
                instructions: "Count first.".to_owned(),
                ..Skill::default()
            }],
            ..Policy::default()
        }
    }

    fn new(body: Value) -> Result<NewSession, Refusal> {
        let caller = Caller::new("t", &[]);
        NewSessionBody::parse(&body, &policy(), &Grants::EVERYTHING)?.into_session(&caller)
    }

    #[test]
    fn an_empty_body_gives_a_generated_id_and_the_servers_limits() {
        let session = new(json!({"model": null, "nonsense": null})).unwrap();
        assert_eq!((session.tenant.as_str(), session.name.len()), ("t", 36));
        assert_eq!((session.max_active, session.max_queued), (Some(5), Some(1000)));
        assert_eq!((session.model, session.budget), (None, Budget::default()));
        assert_ne!(session.name, new(json!({})).unwrap().name);
    }

    #[test]
    fn every_field_of_a_new_session_is_parsed() {
        let session = new(json!({
            "session_id": "é/1", "model": "sonnet", "metadata": {"ticket": [42]}, "max_active": 2, "max_queued": 3,
            "max_input_tokens": 10, "max_output_tokens": 0, "max_cost_usd": 0.25,
        }))
        .unwrap();
        assert_eq!(session.name, "é/1");
        assert_eq!(session.model.as_deref(), Some("main"));
        assert_eq!(Value::Object(session.metadata), json!({"ticket": [42]}));
        assert_eq!((session.max_active, session.max_queued), (Some(2), Some(3)));
        let budget = Budget {
            max_input_tokens: Some(10),
            max_output_tokens: Some(0),
            max_cost_nanousd: Some(250_000_000),
        };
        assert_eq!(session.budget, budget);
    }

    #[test]
    fn an_invalid_field_is_refused_by_name() {
        for (body, field) in [
            (json!([]), "body"),
            (json!("text"), "body"),
            (json!({"session_id": 1}), "session_id"),
            (json!({"model": 1}), "model"),
            (json!({"model": " "}), "model"),
            (json!({"max_active": 0}), "max_active"),
            (json!({"max_active": 6}), "max_active"),
            (json!({"max_active": "2"}), "max_active"),
            (json!({"max_active": 1.5}), "max_active"),
            (json!({"max_queued": 1001}), "max_queued"),
            (json!({"max_input_tokens": -1}), "max_input_tokens"),
            (json!({"max_output_tokens": 1.5}), "max_output_tokens"),
            (json!({"max_cost_usd": -0.01}), "max_cost_usd"),
            (json!({"max_cost_usd": 9_000_000_000.5}), "max_cost_usd"),
            (json!({"max_cost_usd": -1e-300}), "max_cost_usd"),
            (json!({"max_cost_usd": 1e300}), "max_cost_usd"),
            (json!({"max_cost_usd": "1"}), "max_cost_usd"),
            (json!({"metadata": []}), "metadata"),
            (json!({"metadata": {"long": "x".repeat(MAX_METADATA_BYTES)}}), "metadata"),
            (json!({"webhook": "https://example.com"}), "webhook"),
            (json!({"webhook": {"url": "http://example.com"}}), "webhook.url"),
            (json!({"webhook": {"url": "https://[::1]/"}}), "webhook.url"),
            (
                json!({"webhook": {"url": "https://example.com", "events": ["x"]}}),
                "webhook.events[0]",
            ),
            (json!({"colour": "red"}), "colour"),
            (json!({"system_prompt": 1}), "system_prompt"),
            (json!({"system_prompt": " "}), "system_prompt"),
            (json!({"system_prompt": "a\0"}), "system_prompt"),
            (json!({"tools": "fetch"}), "tools"),
            (json!({"tools": ["fetch", 1]}), "tools[1]"),
            (json!({"tools": [""]}), "tools[0]"),
            (json!({"tools": vec!["x"; MOST_TOOLS + 1]}), "tools"),
            (json!({"skills": {}}), "skills"),
            (json!({"skills": ["cooking"]}), "skills"),
            (json!({"skills": vec!["sql"; MOST_SKILLS + 1]}), "skills"),
            (json!({"permissions": []}), "permissions"),
            (json!({"permissions": {"allow": "*"}}), "permissions.allow"),
            (json!({"permissions": {"forbid": []}}), "permissions.forbid"),
        ] {
            let refusal = new(body.clone()).unwrap_err();
            assert_eq!(refusal.code, ErrorCode::InvalidArgument, "{body}");
            assert!(refusal.message.starts_with(&format!("{field}: ")), "{body}: {refusal}");
        }
        assert_eq!(new(json!({"model": "gpt"})).unwrap_err().code, ErrorCode::InvalidModel);
    }

    #[test]
    fn a_session_stores_the_configuration_of_its_orchestrator() {
        let session = new(json!({
            "system_prompt": "Verify.", "tools": ["fetch", "subagent", "fetch"], "skills": ["sql"],
            "permissions": {"deny": ["pay*"]},
        }))
        .unwrap();
        assert_eq!(session.parent.system_prompt.as_deref(), Some("Verify."));
        assert_eq!(session.parent.tools, ["fetch"]);
        assert_eq!(session.parent.skills[0].instructions, "Count first.");
        assert!(!session.permissions.unwrap().allows("pay_all"));
        assert!(new(json!({"system_prompt": "x".repeat(16_003)})).is_ok());
        let too_long = new(json!({"system_prompt": "x".repeat(16_004)})).unwrap_err();
        assert_eq!(too_long.code, ErrorCode::PromptTooLarge);
    }

    #[test]
    fn every_changeable_field_can_be_cleared() {
        for field in CHANGEABLE {
            let change =
                parse_change(&json!({ field: null }), &policy(), &Grants::EVERYTHING).unwrap();
            assert_ne!(change, SessionChange::default(), "{field}");
        }
    }

    #[test]
    fn in_a_change_null_clears_a_field_and_an_absent_one_stays() {
        let change = |body: Value| parse_change(&body, &policy(), &Grants::EVERYTHING);
        assert_eq!(change(json!({})).unwrap(), SessionChange::default());
        let cleared =
            change(json!({"system_prompt": null, "tools": null, "permissions": null, "x": null}))
                .unwrap();
        assert_eq!(
            cleared,
            SessionChange {
                system_prompt: Some(None),
                tools: Some(Vec::new()),
                permissions: Some(None),
                ..SessionChange::default()
            }
        );
        let set =
            change(json!({"model": "sonnet", "metadata": {"a": 1}, "skills": ["sql"]})).unwrap();
        assert_eq!(set.model, Some(Some("main".to_owned())));
        assert_eq!(set.skills.unwrap().len(), 1);
        for (body, field) in [
            (json!([]), "body: "),
            (json!({"session_id": "x"}), "session_id: "),
            (json!({"max_active": 1}), "max_active: "),
            (json!({"system_prompt": ""}), "system_prompt: "),
            (json!({"skills": ["x"]}), "skills: "),
        ] {
            let refusal = change(body.clone()).unwrap_err();
            assert!(refusal.message.starts_with(field), "{body}: {refusal}");
        }
    }
}
