//! The tool `subagent` as models see it. Only `action` is required, as in the source: one schema
//! serves all actions, and a call without a field that its action needs is refused.

use serde_json::{Value, json};

use adjutant_agent::{OnBudget, Replay, SUBAGENT, TextLimits, ToolDefinition, WebhookEvent};

use super::SubagentAction;

/// Includes advice on when to delegate, because many clients show a model only the tools.
const DELEGATION: &str = "Delegates work to specialist agents that run on their own, beside your own work. See who there is (list_agents) or define a new agent, spawn a task, do other work, wait for it, and collect its result. An agent sees its own instructions and the task, not this conversation.
When to delegate: work of several steps that has one clear objective; independent parts that can run side by side (spawn them all, then wait); reading that would fill your context, of which you need only the findings.
When not to: what a single tool call of yours would do; the same work to several agents; what needs this conversation to be understood.
How: write what the agent has to know to shared_context first, and name the keys in the task instead of pasting long texts. Use wait instead of asking for the status again and again. Collect every result; it is a summary, and the details are in the keys that the agent wrote.";

pub fn subagent_tool(limits: &TextLimits) -> ToolDefinition {
    let TextLimits { task, prompt, .. } = limits;
    ToolDefinition {
        name: SUBAGENT.to_owned(),
        description: DELEGATION.to_owned(),
        input_schema: object(json!({
            "action": words(
                &SubagentAction::ALL.iter().map(|action| action.as_str()).collect::<Vec<_>>(),
                "list_agents: who there is. define: a new agent. spawn: starts a task and returns its task_id at once. status: how far a task is. collect: the result of a task that has ended, once. wait: until tasks end. read: a long result in pages. cancel: stops a task. continue: a new task that goes on where an ended one stopped. batch: many spawns at once, all or none. raise: more budget for a task, which goes on if it waits for that."),
            "name": text("For define: 1 to 64 characters of a-z, 0-9, _ and -."),
            "description": text("For define: what the agent is for, on one line."),
            "system_prompt": text(&format!("For define: the agent's instructions, at most {prompt} tokens.")),
            "tools": texts("For define: the names of the tools that the agent may use."),
            "model": text("For define: the model that the agent uses; yours if you name none."),
            "max_turns": number("integer", "For define: how many times the agent may call its model; 10 if you say nothing."),
            "extends": text("For define: an agent from which everything is taken that you do not give."),
            "system_prompt_append": text("For define with extends: what is added to its instructions."),
            "replace": { "type": "boolean", "description": "For define: replace the agent of this name that you defined before." },
            "on_worker_loss": words(&["resume", "fail"], "For define: what becomes of a task whose machine dies; it is resumed elsewhere if you say nothing."),
            "missing_tools": words(&["wait", "ignore"], "For define: what becomes of a task while no machine has one of the agent's tools; it waits if you say nothing, and fails after a while."),
            "may_delegate": { "type": "boolean", "description": "For define: whether the agent may delegate parts of its task, where the operator allows it." },
            "extra_body": { "type": "object", "description": "For define: how the model answers: temperature, top_p, top_k, min_p, presence_penalty, frequency_penalty, seed, reasoning_effort or verbosity, as its API takes them." },
            "compaction": words(&["on", "off"], "For define: whether a conversation that gets too long is summed up; on if you say nothing."),
            "agent": text("For spawn: the agent's name."),
            "task": text(&format!("For spawn and continue: what is to be done, at most {task} tokens. Put longer context into shared_context and name its keys.")),
            "tasks": {
                "type": "array",
                "items": item(limits),
                "description": "For batch: 1 to 100 tasks, each with agent, task and whatever else spawn takes. A name lets the others depend on it before it has a task_id.",
            },
            "queue": { "type": "boolean", "description": "For spawn, continue and batch: wait for room instead of being refused when too many tasks run." },
            "depends_on": texts("For spawn: tasks that must complete first."),
            "timeout_s": number("number", "For spawn, continue and define: the longest that the task may run, in seconds. For wait: how long to wait, 30 if you say nothing and at most 45."),
            "max_input_tokens": number("integer", "For spawn, continue and define: the task stops when it has used so many; a spawn can only lower the agent's limit. For raise: the new, higher limit."),
            "max_output_tokens": number("integer", "For spawn, continue and define: the task stops when it has used so many. For raise: the new, higher limit."),
            "max_cost_usd": number("number", "For spawn, continue and define: the task stops when it has cost so much. For raise: the new, higher limit."),
            "on_budget": words(OnBudget::WORDS, "For spawn, continue and define: what the task does at a limit of these: fail, or pause until you raise the limit."),
            "summary_prompt": text("For spawn, continue and define: what the agent is asked when it is done; its answer becomes the summary."),
            "priority": number("integer", "For spawn and continue: -100 to 100, higher is sooner; 0 if you say nothing."),
            "delay_s": number("number", "For spawn and continue: do not start before so many seconds have passed."),
            "label": text("For spawn and continue: a name for people to recognise the task by, at most 200 characters."),
            "metadata": { "type": "object", "description": "For spawn and continue: anything that you want to find again with the task, at most 16 KiB." },
            "pool": text("For spawn and continue: the group of workers that run the task. Leave it out unless you were told to use one."),
            "webhook": webhook("For spawn and continue: a URL of your own program that is told when the task has ended. Leave it out unless you were told to use one."),
            "idempotency_key": text("For spawn, collect, continue and batch: the same key gets the same answer, and nothing happens twice."),
            "task_id": text("For status, collect, read, cancel, continue and raise: what spawn returned."),
            "task_ids": texts("For wait: the tasks to wait for; all that are active if you name none."),
            "mode": words(&["any", "all"], "For wait: until one of them has ended (the default), or all."),
            "offset": number("integer", "For read: how many characters to skip."),
            "limit": number("integer", "For read: how many characters to return, at most 20000."),
        })),
        replay: Replay::Unsafe,
    }
}

/// A task of a batch: the fields of `spawn` without the key, which belongs to the batch.
fn item(TextLimits { task, .. }: &TextLimits) -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": text("What other tasks of this batch call it in depends_on: 1 to 64 characters of a-z, 0-9, _ and -."),
            "agent": text("The agent's name."),
            "task": text(&format!("What is to be done, at most {task} tokens.")),
            "queue": { "type": "boolean", "description": "Wait for room instead of being refused." },
            "depends_on": texts("Tasks that must complete first: task ids, or names of this batch."),
            "timeout_s": number("number", "The longest that the task may run, in seconds."),
            "max_input_tokens": number("integer", "The task stops when it has used so many."),
            "max_output_tokens": number("integer", "The task stops when it has used so many."),
            "max_cost_usd": number("number", "The task stops when it has cost so much."),
            "on_budget": words(OnBudget::WORDS, "What the task does at a limit of these: fail, or pause until you raise the limit."),
            "summary_prompt": text("What the agent is asked when it is done; its answer becomes the summary."),
            "priority": number("integer", "-100 to 100, higher is sooner."),
            "delay_s": number("number", "Do not start before so many seconds have passed."),
            "label": text("A name for people to recognise the task by, at most 200 characters."),
            "metadata": { "type": "object", "description": "Anything that you want to find again with the task, at most 16 KiB." },
            "pool": text("The group of workers that run the task."),
            "webhook": webhook("A URL of your own program that is told when the task has ended."),
        },
        "required": ["agent", "task"],
        "additionalProperties": false,
    })
}

fn webhook(description: &str) -> Value {
    json!({
        "type": "object",
        "properties": {
            "url": text("An https URL."),
            "events": {
                "type": "array",
                "items": { "type": "string", "enum": WebhookEvent::ALL },
                "description": "Which ends it is told; all of them if you name none.",
            },
        },
        "required": ["url"],
        "additionalProperties": false,
        "description": description,
    })
}

fn object(properties: Value) -> Value {
    json!({ "type": "object", "properties": properties, "required": ["action"], "additionalProperties": false })
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn texts(description: &str) -> Value {
    json!({ "type": "array", "items": { "type": "string" }, "description": description })
}

fn number(kind: &str, description: &str) -> Value {
    json!({ "type": kind, "description": description })
}

fn words(words: &[&str], description: &str) -> Value {
    json!({ "type": "string", "enum": words, "description": description })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_action_is_required() {
        let tool = subagent_tool(&TextLimits::DEFAULT);
        assert_eq!(tool.name, SUBAGENT);
        assert_eq!(tool.input_schema["type"], "object");
        assert_eq!(tool.input_schema["required"], json!(["action"]));
        let known = tool.input_schema["properties"]["action"]["enum"].as_array().unwrap();
        assert_eq!(known[..5], ["list_agents", "define", "spawn", "status", "collect"]);
    }
}
