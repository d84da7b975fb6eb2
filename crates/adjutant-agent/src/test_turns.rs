//! Turns for tests.

use serde_json::json;

use crate::{
    Answer, Arguments, Block, StopReason, StoredTurn, ToolResult, ToolUse, Turn, TurnKind, Usage,
};

/// A turn of the loop that answers with this text and ends.
pub(crate) fn says(text: &str) -> StoredTurn {
    let turn = Turn { answer: Answer::of_text(text), ..Turn::default() };
    StoredTurn { number: 1, attempt: 1, turn, tool_results: Vec::new() }
}

impl StoredTurn {
    pub(crate) fn of_kind(mut self, kind: TurnKind) -> Self {
        self.turn.kind = kind;
        self
    }

    pub(crate) fn stopped(mut self, stop: StopReason) -> Self {
        self.turn.answer.stop = stop;
        self
    }

    pub(crate) fn calling(mut self, ids: &[&str]) -> Self {
        let calls = ids.iter().map(|id| {
            let arguments = Arguments::Json(json!({ "q": id }));
            let (id, name) = ((*id).to_owned(), "look".to_owned());
            Block::ToolUse(ToolUse { id, name, arguments, extra: None })
        });
        self.turn.answer.content.extend(calls);
        self
    }

    pub(crate) fn with_result(mut self, call: &str, content: impl Into<String>) -> Self {
        self.tool_results.push(ToolResult {
            call: call.to_owned(),
            content: content.into(),
            ..ToolResult::default()
        });
        self
    }

    pub(crate) fn using(mut self, input_tokens: i64, output_tokens: i64) -> Self {
        self.turn.usage = Usage { input_tokens, output_tokens, ..Usage::default() };
        self
    }

    pub(crate) fn in_attempt(mut self, attempt: i32) -> Self {
        self.attempt = attempt;
        self
    }
}
