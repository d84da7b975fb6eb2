//! What can be checked of a batch of tasks before anything is sent.

use std::time::Duration;

use adjutant_agent::{Refusal, check_pool};

use crate::{Dependency, NewTask};

/// The most tasks that one spawn may make.
const MAX_BATCH: usize = 1000;
/// The longest delay: a year.
pub(crate) const MAX_DELAY: Duration = Duration::from_secs(366 * 24 * 3600);

/// Refuses what cannot be a batch, naming the field.
pub(crate) fn check_batch(tasks: &[&NewTask]) -> Result<(), Refusal> {
    if tasks.is_empty() || tasks.len() > MAX_BATCH {
        return Err(Refusal::invalid(
            "tasks",
            format_args!("must be 1 to {MAX_BATCH}, not {}", tasks.len()),
        ));
    }
    for task in tasks {
        check_task(task, tasks.len())?;
    }
    check_circles(tasks)
}

fn check_task(task: &NewTask, batch: usize) -> Result<(), Refusal> {
    if task.agent.is_empty() {
        return Err(Refusal::invalid("agent", "must not be empty"));
    }
    if !task.pool.is_empty() {
        check_pool("pool", &task.pool)?;
    }
    for (field, number) in
        [("agent_version", task.agent_version), ("max_failures", task.max_failures.into())]
    {
        if number < 1 {
            return Err(Refusal::invalid(field, "must be at least 1"));
        }
    }
    if task.delay.is_some_and(|delay| delay > MAX_DELAY) {
        return Err(Refusal::invalid(
            "delay_s",
            format_args!("must be at most {} seconds", MAX_DELAY.as_secs()),
        ));
    }
    for dependency in &task.depends_on {
        match dependency {
            Dependency::Task(number) if number.0 < 1 => {
                return Err(Refusal::invalid("depends_on", "task numbers start at 1"));
            }
            Dependency::InBatch(place) if *place >= batch => {
                return Err(Refusal::invalid(
                    "depends_on",
                    format_args!("the batch has no task at place {place}"),
                ));
            }
            Dependency::Task(_) | Dependency::InBatch(_) => {}
        }
    }
    Ok(())
}

/// Names are indexed, and an index takes no long text.
pub(crate) fn check_name(field: &str, name: &str) -> Result<(), Refusal> {
    match name.chars().count() {
        1..=255 => Ok(()),
        _ => Err(Refusal::invalid(field, "must have 1 to 255 characters")),
    }
}

/// Takes away what can run, again and again; what is left is in a circle, or behind one.
fn check_circles(tasks: &[&NewTask]) -> Result<(), Refusal> {
    let mut left: Vec<usize> = (0..tasks.len()).collect();
    loop {
        let blocked = |place: &usize| {
            tasks[*place].depends_on.iter().any(|dependency| match dependency {
                Dependency::InBatch(other) => left.binary_search(other).is_ok(),
                Dependency::Task(_) => false,
            })
        };
        let still: Vec<usize> = left.iter().copied().filter(blocked).collect();
        match still.first() {
            None => return Ok(()),
            Some(first) if still.len() == left.len() => {
                return Err(Refusal::invalid(
                    "depends_on",
                    format_args!("task {} of the batch waits for itself", first + 1),
                ));
            }
            Some(_) => left = still,
        }
    }
}

#[cfg(test)]
mod tests {
    use adjutant_agent::TaskNumber;

    use super::*;

    fn check(tasks: &[NewTask]) -> Result<(), Refusal> {
        check_batch(&tasks.iter().collect::<Vec<_>>())
    }

    fn batch(dependencies: &[&[usize]]) -> Vec<NewTask> {
        let task = |places: &&[usize]| NewTask {
            agent: "a".to_owned(),
            depends_on: places.iter().copied().map(Dependency::InBatch).collect(),
            ..NewTask::default()
        };
        dependencies.iter().map(task).collect()
    }

    #[test]
    fn circles_are_found_and_nothing_else_is() {
        for good in
            [&[&[][..]][..], &[&[1], &[]], &[&[1, 2], &[2], &[]], &[&[], &[0], &[0], &[1, 2]]]
        {
            assert_eq!(check(&batch(good)), Ok(()), "{good:?}");
        }
        for bad in [&[&[0][..]][..], &[&[1], &[0]], &[&[], &[2], &[3], &[1]], &[&[1], &[2], &[1]]] {
            let refusal = check(&batch(bad)).unwrap_err();
            assert!(refusal.message.contains("waits for itself"), "{bad:?}: {refusal}");
        }
    }

    #[test]
    fn a_batch_is_checked_before_anything_is_sent() {
        let with = |change: fn(&mut NewTask)| {
            let mut task = NewTask { agent: "a".to_owned(), ..NewTask::default() };
            change(&mut task);
            check(&[task])
        };
        assert_eq!(with(|_| ()), Ok(()));
        for (change, field) in [
            ((|task| task.agent.clear()) as fn(&mut NewTask), "agent"),
            (|task| task.pool = "x".repeat(256), "pool"),
            (|task| task.agent_version = 0, "agent_version"),
            (|task| task.max_failures = 0, "max_failures"),
            (|task| task.delay = Some(Duration::MAX), "delay_s"),
            (|task| task.depends_on = vec![Dependency::InBatch(1)], "depends_on"),
            (|task| task.depends_on = vec![Dependency::Task(TaskNumber(0))], "depends_on"),
        ] {
            let refusal = with(change).unwrap_err();
            assert!(refusal.message.starts_with(field), "{field}: {refusal}");
        }
        assert!(check_batch(&[]).is_err());
    }
}
