use serde_json::Value;

/// A call of a tool by an orchestrator, not parsed.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    pub tool: String,
    pub arguments: Value,
    /// From the header of the request. In `spec` there is also an argument of this name.
    pub idempotency_key: Option<String>,
    /// As the request has it, not validated; see [`ToolCall::traceparent`].
    pub traceparent: Option<String>,
}

impl ToolCall {
    /// The W3C trace of the call. An invalid one is ignored, as the standard requires.
    pub fn traceparent(&self) -> Option<String> {
        self.traceparent.clone().filter(|parent| is_traceparent(parent))
    }
}

fn is_traceparent(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    parts.len() >= 4
        && text.len() <= 255
        && parts.iter().zip([2, 32, 16, 2]).all(|(part, length)| {
            part.len() == length
                && part.chars().all(|c| c.is_ascii_hexdigit() && !c.is_ascii_uppercase())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_traceparent_is_one() {
        assert!(is_traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
        for wrong in
            ["", "00", "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", "00-0-0-0", "\0"]
        {
            assert!(!is_traceparent(wrong), "{wrong}");
        }
    }
}
