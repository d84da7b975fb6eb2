use adjutant_agent::{ErrorCode, Refusal, TaskNumber};

/// Parses the `task_id` in a field. A text of another form is the id of no task, not an invalid
/// argument: clients do not know the form.
pub(crate) fn task_number(field: &str, name: &str) -> Result<TaskNumber, Refusal> {
    if name.is_empty() {
        return Err(Refusal::invalid(field, "must not be empty"));
    }
    name.parse().map_err(|_| {
        let start: String = name.chars().take(64).collect();
        let sentence = match field {
            "task_id" => format!("Task not found: {start}"),
            _ => format!("{field}: task not found: {start}"),
        };
        Refusal::new(ErrorCode::TaskNotFound, sentence)
    })
}
