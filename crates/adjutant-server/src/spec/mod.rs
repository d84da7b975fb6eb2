//! Our own dialect: `subagent` and `shared_context` as the source writes them, with what we add. A file an action.

mod cancel;
mod collect;
mod define;
mod go_on;
mod list_agents;
mod read;
mod shown;
mod spawn;
mod status;
mod wait;

use adjutant_agent::{
    ContextCall, ErrorCode, Refusal, SHARED_CONTEXT, SUBAGENT, SessionId, SubagentCall, request_body,
};
use adjutant_store::IdempotencyKey;
use serde_json::Value;

use crate::key::Key;
use crate::{Desk, Result, ToolCall};

pub(crate) use wait::{Begun, Look, News, as_wait};

/// A call that has been read.
pub(crate) struct Request {
    call: Call,
    key: Option<Key>,
    traceparent: Option<String>,
}

enum Call {
    Subagent(SubagentCall),
    Context(ContextCall),
}

impl Request {
    pub(crate) fn read(call: &ToolCall) -> std::result::Result<Self, Refusal> {
        let (parsed, key) = match call.tool.as_str() {
            SUBAGENT => {
                let parsed = SubagentCall::parse(&call.arguments)?;
                let key = key(call, &parsed)?;
                (Call::Subagent(parsed), key)
            }
            SHARED_CONTEXT => (Call::Context(ContextCall::parse(&call.arguments)?), None),
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

    /// Whether it makes sense in a session that has nothing in it yet.
    pub(crate) fn begins(&self) -> bool {
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
                | SubagentCall::Continue(_) => false,
            },
            Call::Context(call) => matches!(call, ContextCall::Write { .. } | ContextCall::ListKeys),
        }
    }

    fn key(&self) -> Option<IdempotencyKey<'_>> {
        self.key.as_ref().map(Key::as_ref)
    }
}

/// The key of a call that can have one, from its arguments or from the wire.
fn key(call: &ToolCall, parsed: &SubagentCall) -> std::result::Result<Option<Key>, Refusal> {
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
        | SubagentCall::Cancel(_) => return Ok(None),
    };
    let key = match (argument, &call.idempotency_key) {
        (Some(argument), Some(header)) if argument != header => {
            return Err(Refusal::invalid("idempotency_key", "is another one than the header's"));
        }
        (Some(key), _) | (None, Some(key)) => key,
        (None, None) => return Ok(None),
    };
    Key::new(key, request_body(&call.arguments)).map(Some)
}

impl Desk {
    pub(crate) async fn perform(&self, session: SessionId, request: &Request) -> Result<Value> {
        match &request.call {
            Call::Context(call) => Ok(self.store.shared_context(session, call).await?),
            Call::Subagent(call) => match call {
                SubagentCall::ListAgents => self.list_agents(session).await,
                SubagentCall::Define(call) => self.define(session, call).await,
                SubagentCall::Spawn(call) => self.spawn(session, call, request).await,
                SubagentCall::Batch(call) => self.batch(session, call, request).await,
                SubagentCall::Continue(call) => self.go_on(session, call, request).await,
                SubagentCall::Status(call) => self.status(session, call).await,
                SubagentCall::Collect(call) => self.collect(session, call, request).await,
                SubagentCall::Wait(call) => self.wait(session, call).await,
                SubagentCall::Read(call) => self.read(session, call).await,
                SubagentCall::Cancel(call) => self.cancel(session, call).await,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(tool: &str, arguments: Value, header: Option<&str>) -> std::result::Result<Request, Refusal> {
        Request::read(&ToolCall {
            tool: tool.to_owned(),
            arguments,
            idempotency_key: header.map(str::to_owned),
            traceparent: None,
        })
    }

    #[test]
    fn a_key_comes_from_the_arguments_or_the_header_and_counts_where_it_can() {
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
