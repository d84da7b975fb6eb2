//! The texts of all messages to models, and the error texts of tasks that are fixed by the
//! specification.

use crate::Depth;

/// The end of every agent's system prompt.
pub const SUFFIX: &str = "You are a subagent. Keep your final response concise (under 1000 tokens). Write detailed findings to shared context rather than including them in your response. Your response will be returned to the orchestrator as a summary of your work.";

/// The same for an agent whose shared context is a snapshot that is deleted when its task ends.
pub const SNAPSHOT_SUFFIX: &str = "You are a subagent. Keep your final response concise (under 1000 tokens). Put your findings into your final response: your shared context is a private snapshot, and what you write there is discarded when you end. Your response will be returned to the orchestrator as a summary of your work.";

/// Asks for an answer with a summary, for a background task.
pub const ENVELOPE: &str = "Your work is done in the background, and whoever asked for it may read a short form of it first. If your answer is long, give it in this form and write nothing around it:
<subagent_background_result>
<summary>In a few sentences, what you found.</summary>
<full_result>All of it.</full_result>
</subagent_background_result>";

/// Sent after an answer that was cut off at the token limit.
pub const CONTINUE: &str = "Your answer was cut off because it reached the limit of its length. Continue exactly where it stopped. Repeat nothing and add no introduction: what you write now is joined to what you have written.";

/// Sent after an answer without text.
pub const ASK_AGAIN: &str = "Your last answer had no text. Give your final answer to the task now, as plain text, from what you have found so far. Call no tools.";

/// Replaces an answer without text in the conversation.
pub const EMPTY_ANSWER: &str = "(no text)";

pub const EMPTY_TOOL_RESULT: &str = "(The tool gave no output.)";

/// The result of a call that an earlier attempt may have made and that is not safe to repeat.
pub const OUTCOME_UNKNOWN: &str = "The outcome of this call is unknown: the worker that ran it was lost before the result was stored. It may have taken effect or not. Find out before you call the tool again, or report that you could not.";

/// The result of a call of the last allowed turn.
pub const NOT_MADE: &str = "This call was not made.";

/// The result of each call of an answer beyond [`crate::MAX_TOOL_CALLS`].
pub const TOO_MANY_CALLS: &str = "This call was not made: one answer may have at most 32 tool calls. Make it again in your next answer if you still need it.";

/// The result of a call that an earlier task may have made before it ended.
pub const UNFINISHED: &str = "There is no result of this call: the task ended before one was stored. It may have taken effect or not. Find out before you call the tool again, or report that you could not.";

/// Appended to a result that is too long for the dialect `spec`.
pub const TRUNCATED: &str = "\n[truncated — full response exceeded 1000 token limit]";

pub const MAX_TURNS: &str = "Max turns exceeded without producing a final response";
/// The details of the error of a task whose model gave no answer for reasons of its own.
pub const REFUSED: &str = "the model refused to answer";
pub const EMPTY_RESULT: &str =
    "The agent ended without a final response, and gave none when it was asked again";

/// The error of a task whose model cannot be called.
pub fn model_error(details: impl std::fmt::Display) -> String {
    format!("Model API error: {details}")
}

/// The error of a task that fails because of a tool. An ordinary tool error is a result for the
/// agent.
pub fn tool_error(turn: i32, details: impl std::fmt::Display) -> String {
    format!("Tool execution error in turn {turn}: {details}")
}

/// The refusal of a call to delegate by an agent of the last level.
pub fn too_deep(max_depth: i16, depth: Depth) -> String {
    format!(
        "Maximum subagent recursion depth ({max_depth}) exceeded. Current depth: {depth}. Cannot spawn nested subagent."
    )
}

/// Replaces an old tool result when the conversation does not fit the context window.
pub(crate) fn left_out(chars: usize) -> String {
    format!(
        "[A result of {chars} characters stood here. It was left out to save room; if you need it again, call the tool again.]"
    )
}

/// In the middle of a tool result that was cut to fit the context window.
pub(crate) fn left_out_within(chars: usize) -> String {
    format!("\n[... {chars} characters left out to save room ...]\n")
}

/// A prompt for orchestrators: the agents, how to delegate, and how to use the shared context.
pub fn orchestrator_prompt<'a>(agents: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let agents: Vec<_> = agents.into_iter().collect();
    let width = agents.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut prompt = String::new();
    if agents.is_empty() {
        prompt.push_str("No specialist agents are registered yet.\n");
    } else {
        prompt.push_str("Specialist agents to whom you can delegate with the subagent tool:\n\n");
        for (name, description) in agents {
            prompt.push_str(&format!("  {name:width$}  {description}\n"));
        }
    }
    prompt.push_str(DEFINE);
    prompt.push_str(DISCIPLINE);
    prompt.push_str(COMPOSITION);
    prompt
}

const DEFINE: &str = "
If none of them fits the work at hand, define a new agent with the define action. The list_agents action shows those that
exist now.
";

const DISCIPLINE: &str = "
How to delegate:

DO:
  - Put what the agent has to know into shared_context before you spawn it.
  - Give each task one clear objective.
  - Name the shared context keys in the task instead of copying long texts into it.
  - Spawn independent tasks side by side, go on with other work, and use wait instead of asking for the status again and again.
  - Collect every result, and draw your conclusions over all of them.
  - Define an agent of its own for work that none of the registered ones is made for.

Do NOT:
  - Delegate what a single tool call of yours would do.
  - Give the same work to several agents.
  - Paste raw data into a task: that is what shared context is for.
  - Expect an agent to know this conversation. It sees its own instructions and the task, nothing else.
  - Define agents that can do everything. Describe the one ability that is needed.
";

const COMPOSITION: &str = "
How subagents and shared context work together:

  1. Before you spawn: write the problem, its scope and its constraints to shared context.
  2. In the task: be short, and point to the keys (\"Analyse the issue in problem_summary\").
  3. While it runs: the agent reads from shared context and writes its findings there.
  4. After you collect: the result is a summary; read the keys that the agent wrote for the details.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_orchestrators_prompt_lists_the_agents_and_has_three_blocks() {
        let prompt =
            orchestrator_prompt([("researcher", "Investigates"), ("writer", "Drafts reports")]);
        assert!(
            prompt.contains("\n  researcher  Investigates\n  writer      Drafts reports\n"),
            "{prompt}"
        );
        for block in [
            "\nHow to delegate:\n",
            "\nDo NOT:\n",
            "\nHow subagents and shared context work together:\n",
        ] {
            assert!(prompt.contains(block), "{block}");
        }
        assert!(orchestrator_prompt([]).starts_with("No specialist agents are registered yet.\n"));
    }

    #[test]
    fn the_suffix_is_one_paragraph() {
        assert!(SUFFIX.starts_with(
            "You are a subagent. Keep your final response concise (under 1000 tokens). "
        ));
        assert!(SUFFIX.ends_with(
            " Your response will be returned to the orchestrator as a summary of your work."
        ));
        assert!(!SUFFIX.contains('\n') && !SUFFIX.contains("  "));
    }
}
