//! What the log tells of the calls of orchestrators, over every wire alike. Only words that we know ourselves are written
//! down: a text that a caller made up may be anything.

use adjutant_agent::{ContextAction, SHARED_CONTEXT, SUBAGENT, SubagentAction, TaskNumber, check_agent_name};
use serde_json::Value;

use crate::{Result, ToolCall};

pub(crate) fn call(session: &str, call: &ToolCall, answer: &Result<Value>) {
    let Some(action) = action(call) else { return refused(session, "unknown", &Value::Null, answer) };
    let answer = match answer {
        Ok(answer) => answer,
        Err(_) => return refused(session, action, &call.arguments, answer),
    };
    match answer["tasks"].as_array() {
        Some(tasks) if tasks.is_empty() => one(session, action, answer),
        Some(tasks) => tasks.iter().for_each(|task| one(session, action, task)),
        None => one(session, action, answer),
    }
}

fn action(call: &ToolCall) -> Option<&'static str> {
    let word = call.arguments["action"].as_str()?;
    match call.tool.as_str() {
        SUBAGENT => word.parse().ok().map(SubagentAction::as_str),
        SHARED_CONTEXT => word.parse().ok().map(ContextAction::as_str),
        _ => None,
    }
}

/// An answer, or one of the tasks in it.
fn one(session: &str, action: &str, answer: &Value) {
    let task = answer["task_id"].as_str();
    tracing::info!(
        action,
        session.id = session,
        task.number = task,
        task.id = answer["id"].as_str(),
        agent.name = answer["agent"].as_str(),
        task.status = answer["status"].as_str(),
        turns_used = answer["turns_used"].as_i64(),
        "{action} in {session}: {}",
        task.unwrap_or("done")
    );
}

fn refused(session: &str, action: &str, arguments: &Value, answer: &Result<Value>) {
    let Err(error) = answer else { return };
    let code = error.code().as_str();
    let task = arguments["task_id"].as_str().filter(|name| name.parse::<TaskNumber>().is_ok());
    let agent = arguments["agent"].as_str().filter(|name| check_agent_name(name).is_ok());
    tracing::info!(
        action,
        session.id = session,
        task.number = task,
        agent.name = agent,
        error.code = code,
        "{action} in {session}: {code}"
    );
}
