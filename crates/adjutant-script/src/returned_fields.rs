//! Checks that what a model has said about its reasoning comes back unchanged: the vendors refuse a
//! tool call without the reasoning or the signature that it had.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::anthropic::SIGNATURE;
use crate::filled_reply::FilledReply;
use crate::model_request::Wire;

/// What has to come back with each call, by the call's id.
#[derive(Debug, Default)]
pub(crate) struct IssuedFields(HashMap<String, Issued>);

#[derive(Debug)]
struct Issued {
    wire: Wire,
    of_message: Map<String, Value>,
    of_call: Map<String, Value>,
    thinking: Option<String>,
}

impl IssuedFields {
    pub(crate) fn issue(&mut self, wire: Wire, reply: &FilledReply) {
        for call in &reply.calls {
            let issued = Issued {
                wire,
                of_message: reply.fields.clone(),
                of_call: call.fields.clone(),
                thinking: reply.thinking.clone(),
            };
            self.0.insert(call.id.clone(), issued);
        }
    }

    /// The reason why the vendor would refuse a request on this wire. What was issued on the other
    /// wire, before a change of the model, has no form here.
    pub(crate) fn missing(&self, wire: Wire, body: &Value) -> Option<String> {
        let messages = body["messages"].as_array().into_iter().flatten();
        messages.filter(|message| message["role"] == "assistant").find_map(|message| {
            let blocks = message["content"].as_array().into_iter().flatten();
            let calls = message["tool_calls"].as_array().into_iter().flatten();
            let uses = blocks.filter(|block| block["type"] == "tool_use");
            calls.chain(uses).find_map(|call| self.missing_of(wire, message, call))
        })
    }

    fn missing_of(&self, wire: Wire, message: &Value, call: &Value) -> Option<String> {
        let id = call["id"].as_str().unwrap_or_default();
        let issued = self.0.get(id).filter(|issued| issued.wire == wire)?;
        let lost = |fields: &Map<String, Value>, object: &Value| {
            let lost = fields.iter().find(|(name, value)| object[name.as_str()] != **value);
            lost.map(|(name, _)| name.clone())
        };
        if let Some(name) = lost(&issued.of_call, call) {
            return Some(format!("tool call {id:?}: {name} is missing or was changed"));
        }
        match (issued.wire, &issued.thinking) {
            (Wire::OpenAi, _) => lost(&issued.of_message, message)
                .map(|name| format!("the message with call {id:?}: {name} must be passed back")),
            (Wire::Anthropic, Some(thinking)) => {
                let block =
                    json!({"type": "thinking", "thinking": thinking, "signature": SIGNATURE});
                (message["content"][0] != block)
                    .then(|| format!("the message with tool_use {id:?} must begin with thinking"))
            }
            (Wire::Anthropic, None) => None,
        }
    }
}
