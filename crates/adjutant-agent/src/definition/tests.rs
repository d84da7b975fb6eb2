use serde_json::{Value, json};

use super::*;

fn draft() -> AgentDraft {
    AgentDraft {
        name: "analyst".into(),
        description: Some("Analyses data".into()),
        system_prompt: Some("You are an analyst.".into()),
        ..AgentDraft::default()
    }
}

fn checked(draft: AgentDraft) -> Result<AgentDefinition, Refusal> {
    draft.check(&DefinitionLimits::default())
}

fn refusal(draft: AgentDraft) -> (ErrorCode, String) {
    let refusal = checked(draft).unwrap_err();
    (refusal.code, refusal.message)
}

#[test]
fn what_is_not_said_has_its_default() {
    let definition = checked(draft()).unwrap();
    assert_eq!(definition.on_worker_loss, OnWorkerLoss::Resume);
    assert_eq!(
        definition.config,
        AgentConfig {
            system_prompt: "You are an analyst.".into(),
            max_turns: 10,
            ..AgentConfig::default()
        }
    );
    assert!(definition.config.tools.is_empty());
}

#[test]
fn a_refusal_names_the_field() {
    use ErrorCode::{AgentNotFound, InvalidAgentName, InvalidArgument, PromptTooLarge};
    let text = |text: &str| Some(text.to_owned());
    let long = |chars| Some("x".repeat(chars));
    for (wrong, code, field) in [
        (AgentDraft { name: String::new(), ..draft() }, InvalidAgentName, "name"),
        (AgentDraft { name: "Analyst".into(), ..draft() }, InvalidAgentName, "name"),
        (AgentDraft { name: "a\0".into(), ..draft() }, InvalidAgentName, "name"),
        (AgentDraft { description: None, ..draft() }, InvalidArgument, "description"),
        (AgentDraft { description: text(" "), ..draft() }, InvalidArgument, "description"),
        (AgentDraft { description: text("a\nb"), ..draft() }, InvalidArgument, "description"),
        (AgentDraft { description: text("a\0b"), ..draft() }, InvalidArgument, "description"),
        (AgentDraft { system_prompt: None, ..draft() }, InvalidArgument, "system_prompt"),
        (AgentDraft { system_prompt: text("\n"), ..draft() }, InvalidArgument, "system_prompt"),
        (AgentDraft { system_prompt: text("a\0"), ..draft() }, InvalidArgument, "system_prompt"),
        (AgentDraft { system_prompt: long(16_004), ..draft() }, PromptTooLarge, "system_prompt"),
        (AgentDraft { summary_prompt: long(16_004), ..draft() }, PromptTooLarge, "summary_prompt"),
        (AgentDraft { summary_prompt: text("a\0"), ..draft() }, InvalidArgument, "summary_prompt"),
        (AgentDraft { extends: text("nobody"), ..draft() }, AgentNotFound, "extends"),
        (
            AgentDraft { system_prompt_append: text("x"), ..draft() },
            InvalidArgument,
            "system_prompt_append",
        ),
        (AgentDraft { model: text(""), ..draft() }, InvalidArgument, "model"),
        (AgentDraft { tools: Some(vec!["\0".into()]), ..draft() }, InvalidArgument, "tools"),
        (AgentDraft { tools: Some(vec![String::new()]), ..draft() }, InvalidArgument, "tools"),
        (AgentDraft { max_turns: Some(0), ..draft() }, InvalidArgument, "max_turns"),
        (AgentDraft { max_turns: Some(i64::MIN), ..draft() }, InvalidArgument, "max_turns"),
        (AgentDraft { timeout_s: Some(0.0), ..draft() }, InvalidArgument, "timeout_s"),
        (AgentDraft { timeout_s: Some(f64::NAN), ..draft() }, InvalidArgument, "timeout_s"),
        (AgentDraft { max_input_tokens: Some(-1), ..draft() }, InvalidArgument, "max_input_tokens"),
        (
            AgentDraft { max_output_tokens: Some(-1), ..draft() },
            InvalidArgument,
            "max_output_tokens",
        ),
        (AgentDraft { max_cost_usd: Some(-0.01), ..draft() }, InvalidArgument, "max_cost_usd"),
        (
            AgentDraft { max_cost_usd: Some(f64::INFINITY), ..draft() },
            InvalidArgument,
            "max_cost_usd",
        ),
        (AgentDraft { max_cost_usd: Some(1e10), ..draft() }, InvalidArgument, "max_cost_usd"),
    ] {
        let (found, message) = refusal(wrong.clone());
        assert_eq!(found, code, "{message}");
        assert!(message.starts_with(&format!("{field}: ")), "{message}");
    }
}

#[test]
fn the_longest_prompt_passes_and_an_operators_may_be_longer() {
    let long = |chars| AgentDraft { system_prompt: Some("é".repeat(chars)), ..draft() };
    assert!(checked(long(16_003)).is_ok());
    assert_eq!(refusal(long(16_004)).0, ErrorCode::PromptTooLarge);
    let operators = DefinitionLimits { max_prompt_tokens: None, ..DefinitionLimits::default() };
    assert!(long(100_000).check(&operators).is_ok());
}

#[test]
fn only_where_the_operator_allows_it_a_definition_delegates_and_nobody_inherits_it() {
    let delegates = || AgentDraft { may_delegate: Some(true), ..draft() };
    let (code, message) = refusal(delegates());
    assert_eq!(code, ErrorCode::InvalidArgument);
    assert!(message.starts_with("may_delegate: "), "{message}");
    assert!(
        !checked(AgentDraft { may_delegate: Some(false), ..draft() }).unwrap().config.may_delegate
    );
    let limits = DefinitionLimits { may_delegate: true, ..DefinitionLimits::default() };
    let head = delegates().check(&limits).unwrap();
    assert!(head.config.may_delegate);
    let heir = AgentDraft { name: "heir".to_owned(), ..AgentDraft::default() }.extending(&head);
    assert!(!heir.check(&limits).unwrap().config.may_delegate);
}

#[test]
fn turns_above_the_ceiling_become_the_ceiling() {
    for (requested, ceiling, turns) in [
        (Some(1), 25, 1),
        (Some(25), 25, 25),
        (Some(100), 25, 25),
        (Some(i64::MAX), 100, 100),
        (None, 25, 10),
        (None, 5, 5),
    ] {
        let limits = DefinitionLimits { max_turns: ceiling, ..DefinitionLimits::default() };
        let definition = AgentDraft { max_turns: requested, ..draft() }.check(&limits).unwrap();
        assert_eq!(definition.config.max_turns, turns, "{requested:?} of {ceiling}");
    }
}

#[test]
fn tools_are_kept_once_each_and_never_the_one_to_delegate() {
    let tools = ["fetch", "subagent", "shared_context", "fetch"].map(str::to_owned).to_vec();
    let definition = checked(AgentDraft { tools: Some(tools), ..draft() }).unwrap();
    assert_eq!(definition.config.tools, ["fetch", "shared_context"]);
}

#[test]
fn a_blank_summary_prompt_is_none() {
    let definition = checked(AgentDraft { summary_prompt: Some(" \n".into()), ..draft() }).unwrap();
    assert_eq!(definition.config.summary_prompt, None);
}

#[test]
fn dollars_become_billionths() {
    for (usd, nanos) in [
        (0.0, 0),
        (0.1, 100_000_000),
        (0.25, 250_000_000),
        (1e-9, 1),
        (12.345678901, 12_345_678_901),
    ] {
        assert_eq!(nanousd("max_cost_usd", usd), Ok(nanos));
    }
}

#[test]
fn an_extension_takes_from_its_parent_what_it_does_not_say() {
    let parent = checked(AgentDraft {
        tools: Some(vec!["fetch".into()]),
        model: Some("main".into()),
        max_turns: Some(7),
        summary_prompt: Some("Sum up.".into()),
        timeout_s: Some(60.0),
        max_input_tokens: Some(1_000),
        max_cost_usd: Some(0.1),
        on_worker_loss: Some(OnWorkerLoss::Fail),
        ..draft()
    })
    .unwrap();
    let child = |change: AgentDraft| {
        checked(
            AgentDraft { name: "senior".into(), extends: Some("analyst".into()), ..change }
                .extending(&parent),
        )
        .unwrap()
    };

    let same = child(AgentDraft::default());
    assert_eq!(same, AgentDefinition { name: "senior".into(), ..parent.clone() });

    let changed = child(AgentDraft {
        description: Some("Analyses more".into()),
        system_prompt_append: Some("Use two sources.".into()),
        tools: Some(Vec::new()),
        max_turns: Some(15),
        ..AgentDraft::default()
    });
    assert_eq!(changed.description, "Analyses more");
    assert_eq!(changed.config.system_prompt, "You are an analyst.\n\nUse two sources.");
    assert!(changed.config.tools.is_empty());
    assert_eq!((changed.config.max_turns, changed.config.budget), (15, parent.config.budget));

    let bare = checked(draft()).unwrap();
    let of_bare = AgentDraft { name: "senior".into(), ..AgentDraft::default() }.extending(&bare);
    assert_eq!(checked(of_bare).unwrap().config, bare.config, "no model stays no model");
}

#[test]
fn the_joined_prompt_of_an_extension_has_the_same_limit() {
    let parent =
        checked(AgentDraft { system_prompt: Some("x".repeat(16_000)), ..draft() }).unwrap();
    let child = |addition: &str| {
        AgentDraft {
            name: "senior".into(),
            system_prompt_append: Some(addition.into()),
            ..AgentDraft::default()
        }
        .extending(&parent)
    };
    assert!(checked(child("x")).is_ok(), "16003 with the blank line");
    assert_eq!(refusal(child("xx")).0, ErrorCode::PromptTooLarge);
}

#[test]
fn a_draft_reads_from_the_wire_and_refuses_what_it_does_not_know() {
    let draft: AgentDraft = serde_json::from_str(
        r#"{"name": "a", "description": "d", "system_prompt": null, "tools": ["fetch"], "max_turns": 3, "on_worker_loss": "fail"}"#,
    )
    .unwrap();
    assert_eq!((draft.max_turns, draft.on_worker_loss), (Some(3), Some(OnWorkerLoss::Fail)));
    assert_eq!(draft.system_prompt, None);
    let unknown =
        serde_json::from_str::<AgentDraft>(r#"{"name": "a", "max_turn": 3}"#).unwrap_err();
    assert!(unknown.to_string().contains("max_turn"), "{unknown}");
}

#[test]
fn a_session_sets_harmless_body_fields_and_the_operator_any_that_is_not_reserved() {
    let draft = |name: &str, value: Value| AgentDraft {
        extra_body: [(name.to_owned(), value)].into_iter().collect(),
        ..draft()
    };
    let operators =
        DefinitionLimits { defined_by: DefinedBy::Operator, ..DefinitionLimits::default() };
    let sessions = DefinitionLimits::default();
    for reserved in ["model", "messages", "tools", "stream", "max_tokens", "max_completion_tokens"]
    {
        for limits in [&operators, &sessions] {
            let refusal = draft(reserved, json!(1)).check(limits).unwrap_err();
            assert!(refusal.message.contains(&format!("extra_body.{reserved}")), "{refusal:?}");
        }
    }
    for (name, value) in
        [("store", json!(true)), ("seed", json!({})), ("seed", json!("x".repeat(65)))]
    {
        draft(name, value.clone()).check(&operators).unwrap();
        let refusal = draft(name, value).check(&sessions).unwrap_err();
        assert!(refusal.message.contains(&format!("extra_body.{name}")), "{refusal:?}");
    }
    let effort = draft("reasoning_effort", json!("low")).check(&sessions).unwrap();
    assert_eq!(effort.config.extra_body["reasoning_effort"], "low");

    let parent = draft("store", json!(true)).check(&operators).unwrap();
    let child = draft("seed", json!(7)).extending(&parent).check(&sessions).unwrap();
    assert_eq!(Value::from(child.config.extra_body), json!({"store": true, "seed": 7}));
}
