use adjutant_agent::{
    ContextCall, ErrorCode, IDEMPOTENCY_KEY, Refusal, SHARED_CONTEXT, SUBAGENT, SessionId,
    TextLimits,
};
use adjutant_store::IdempotencyKey;
use futures::future::BoxFuture;
use serde_json::Value;

use super::{
    SubagentCall, WaitCall, cancel, collect, continue_task, define, list_agents, raise, read,
    spawn, status, wait,
};
use crate::idempotency::{CallKey, request_body};
use crate::{Context, Result, ToolCall};

/// A call of `subagent` or `shared_context`, with the key and the trace of its request.
#[derive(Debug)]
pub(crate) struct ParsedRequest {
    call: Call,
    key: Option<CallKey>,
    pub(super) traceparent: Option<String>,
}

#[derive(Debug)]
enum Call {
    Subagent(SubagentCall),
    Context(ContextCall),
}

impl ParsedRequest {
    pub(super) fn parse(call: &ToolCall, limits: &TextLimits) -> Result<Self, Refusal> {
        let (parsed, key) = match call.tool.as_str() {
            SUBAGENT => {
                let parsed = SubagentCall::parse(&call.arguments, limits)?;
                let key = key(call, &parsed)?;
                (Call::Subagent(parsed), key)
            }
            SHARED_CONTEXT => (Call::Context(ContextCall::parse(&call.arguments, limits)?), None),
            other => {
                let start: String = other.chars().take(64).collect();
                return Err(Refusal::new(
                    ErrorCode::ToolNotFound,
                    format!("There is no tool {start:?}; there are: {SUBAGENT}, {SHARED_CONTEXT}"),
                ));
            }
        };
        Ok(Self { call: parsed, key, traceparent: call.traceparent() })
    }

    /// Whether the call makes sense in a session that has no tasks yet.
    pub(super) fn can_open_session(&self) -> bool {
        match &self.call {
            Call::Subagent(call) => match call {
                SubagentCall::ListAgents
                | SubagentCall::Define(_)
                | SubagentCall::Spawn(_)
                | SubagentCall::Batch(_) => true,
                SubagentCall::Status(_)
                | SubagentCall::Collect(_)
                | SubagentCall::Wait(_)
                | SubagentCall::Read(_)
                | SubagentCall::Cancel(_)
                | SubagentCall::Raise(_)
                | SubagentCall::Continue(_) => false,
            },
            Call::Context(call) => {
                matches!(call, ContextCall::Write { .. } | ContextCall::ListKeys)
            }
        }
    }

    pub(super) fn polls_status(&self) -> bool {
        matches!(self.call, Call::Subagent(SubagentCall::Status(_)))
    }

    pub(super) fn as_wait(&self) -> Option<&WaitCall> {
        match &self.call {
            Call::Subagent(SubagentCall::Wait(wait)) => Some(wait),
            Call::Subagent(_) | Call::Context(_) => None,
        }
    }

    pub(super) fn key(&self) -> Option<IdempotencyKey<'_>> {
        self.key.as_ref().map(CallKey::as_ref)
    }

    pub(super) async fn perform(&self, context: &Context<'_>, session: SessionId) -> Result<Value> {
        let call = match &self.call {
            Call::Context(call) => {
                context.grants().check_shared_context()?;
                return context.store.shared_context(session, call).await;
            }
            Call::Subagent(call) => call,
        };
        // Boxed, so that a waiting client does not reserve room for the largest of them.
        let answer: BoxFuture<'_, Result<Value>> = match call {
            SubagentCall::ListAgents => Box::pin(list_agents::list_agents(context, session)),
            SubagentCall::Define(call) => Box::pin(define::define(context, session, call)),
            SubagentCall::Spawn(call) => Box::pin(spawn::spawn(context, session, call, self)),
            SubagentCall::Batch(call) => Box::pin(spawn::batch(context, session, call, self)),
            SubagentCall::Continue(call) => {
                Box::pin(continue_task::continue_task(context, session, call, self))
            }
            SubagentCall::Status(call) => Box::pin(status::status(context, session, call)),
            SubagentCall::Collect(call) => Box::pin(collect::collect(context, session, call, self)),
            SubagentCall::Wait(call) => Box::pin(wait::wait(context, session, call)),
            SubagentCall::Read(call) => Box::pin(read::read(context, session, call)),
            SubagentCall::Cancel(call) => Box::pin(cancel::cancel(context, session, call)),
            SubagentCall::Raise(call) => Box::pin(raise::raise(context, session, call)),
        };
        answer.await
    }
}

/// The key of a call that can have one, from its arguments or from the transport.
fn key(call: &ToolCall, parsed: &SubagentCall) -> Result<Option<CallKey>, Refusal> {
    let argument = match parsed {
        SubagentCall::Spawn(spawn) => &spawn.idempotency_key,
        SubagentCall::Batch(batch) => &batch.idempotency_key,
        SubagentCall::Continue(call) => &call.idempotency_key,
        SubagentCall::Collect(collect) => &collect.idempotency_key,
        SubagentCall::ListAgents
        | SubagentCall::Define(_)
        | SubagentCall::Status(_)
        | SubagentCall::Wait(_)
        | SubagentCall::Read(_)
        | SubagentCall::Raise(_)
        | SubagentCall::Cancel(_) => return Ok(None),
    };
    let key = match (argument, &call.idempotency_key) {
        (Some(argument), Some(header)) if argument != header => {
            return Err(Refusal::invalid(IDEMPOTENCY_KEY, "is another one than the header's"));
        }
        (Some(key), _) | (None, Some(key)) => key,
        (None, None) => return Ok(None),
    };
    CallKey::new(key, request_body(&call.arguments)).map(Some)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(tool: &str, arguments: Value, header: Option<&str>) -> Result<ParsedRequest, Refusal> {
        let call = ToolCall {
            tool: tool.to_owned(),
            arguments,
            idempotency_key: header.map(str::to_owned),
            traceparent: None,
        };
        ParsedRequest::parse(&call, &TextLimits::DEFAULT)
    }

    #[test]
    fn an_idempotency_key_comes_from_the_arguments_or_the_header() {
        let key = |arguments: Value, header: Option<&str>| {
            read("subagent", arguments, header).map(|request| request.key.map(|key| key.key))
        };
        let plain = json!({"action": "spawn", "agent": "a", "task": "x"});
        let keyed = json!({"action": "spawn", "agent": "a", "task": "x", "idempotency_key": "k"});
        assert_eq!(key(plain.clone(), None), Ok(None));
        assert_eq!(key(plain.clone(), Some("k")), Ok(Some("k".to_owned())));
        assert_eq!(key(keyed.clone(), None), Ok(Some("k".to_owned())));
        assert_eq!(key(keyed.clone(), Some("k")), Ok(Some("k".to_owned())));
        assert_eq!(key(json!({"action": "status", "task_id": "t_01"}), Some("k")), Ok(None));
        for (arguments, header) in [(keyed, "other".to_owned()), (plain, "x".repeat(301))] {
            let refusal = key(arguments, Some(header.as_str())).unwrap_err();
            assert!(refusal.message.starts_with("idempotency_key: "), "{refusal}");
        }
    }

    #[test]
    fn an_unknown_tool_is_not_found() {
        for tool in ["", "Subagent", "fetch"] {
            let refusal = read(tool, json!({}), None).err().unwrap();
            assert_eq!(refusal.code, ErrorCode::ToolNotFound);
        }
    }
}
