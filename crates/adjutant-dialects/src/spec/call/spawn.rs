//! Calls that create tasks: one, many, or one that continues another.

use std::time::Duration;

use adjutant_agent::{
    Budget, Fields, MAX_SECONDS, OnBudget, Refusal, TaskNumber, TextLimits, Webhook,
    check_agent_name, check_pool, time_limit,
};
use adjutant_store::{Dependency, NewDelegation, NewTask};
use serde_json::{Map, Value};

use super::follow::{MAX_TASK_IDS, idempotency_key, task_id};
use crate::spec::BATCH_ITEM;
use crate::task_number::task_number;

/// The most tasks of one batch.
const MAX_BATCH: usize = 100;
const MAX_LABEL_CHARS: usize = 200;
const MAX_METADATA_BYTES: usize = 16 * 1024;
/// Tasks with a higher priority are claimed first.
const PRIORITIES: std::ops::RangeInclusive<i64> = -100..=100;

/// The options of every new task.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskOptions {
    /// Wait behind the session's window instead of being refused.
    pub queue: bool,
    pub priority: i16,
    pub delay: Option<Duration>,
    pub timeout_s: Option<f64>,
    pub budget: Budget,
    pub on_budget: Option<OnBudget>,
    pub summary_prompt: Option<String>,
    pub label: Option<String>,
    pub metadata: Map<String, Value>,
    /// Gets the end of the task instead of the session's webhook.
    pub webhook: Option<Webhook>,
    /// The workers that run it: the agent's pool if it names none, or for `continue` that of the
    /// earlier task.
    pub pool: Option<String>,
}

/// `spawn`: a task for an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct SpawnCall {
    pub agent: String,
    pub task: String,
    pub depends_on: Vec<TaskNumber>,
    pub options: TaskOptions,
    pub idempotency_key: Option<String>,
}

/// `continue`: a new task that starts from the conversation of one that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct ContinueCall {
    pub task_id: TaskNumber,
    pub task: String,
    pub options: TaskOptions,
    pub idempotency_key: Option<String>,
}

/// `batch`: tasks that are spawned all or none.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchCall {
    pub tasks: Vec<BatchItem>,
    pub idempotency_key: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct BatchItem {
    /// The name that other tasks of the batch use in `depends_on`.
    pub name: Option<String>,
    pub agent: String,
    pub task: String,
    pub depends_on: Vec<ItemDependency>,
    pub options: TaskOptions,
}

/// A dependency of a task of a batch: an existing task, or the index of another one of the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemDependency {
    Task(TaskNumber),
    Item(usize),
}

impl From<ItemDependency> for Dependency {
    fn from(dependency: ItemDependency) -> Self {
        match dependency {
            ItemDependency::Task(number) => Self::Task(number),
            ItemDependency::Item(place) => Self::InBatch(place),
        }
    }
}

/// A task with these options for this agent.
pub fn new_delegation(agent: &str, assignment: &str, options: &TaskOptions) -> NewDelegation {
    let TaskOptions {
        queue,
        priority,
        delay,
        timeout_s,
        budget,
        on_budget,
        summary_prompt,
        label,
        metadata,
        webhook,
        pool,
    } = options.clone();
    NewDelegation {
        task: NewTask {
            agent: agent.to_owned(),
            assignment: assignment.to_owned(),
            label,
            metadata,
            priority,
            delay,
            queue,
            webhook,
            pool: pool.unwrap_or_default(),
            ..NewTask::default()
        },
        timeout_s,
        budget,
        on_budget,
        summary_prompt,
        ..NewDelegation::default()
    }
}

impl From<&BatchItem> for NewDelegation {
    fn from(item: &BatchItem) -> Self {
        let mut new = new_delegation(&item.agent, &item.task, &item.options);
        new.task.depends_on = item.depends_on.iter().copied().map(Dependency::from).collect();
        new
    }
}

impl SpawnCall {
    pub(super) fn read(fields: &mut Fields, limits: &TextLimits) -> Result<Self, Refusal> {
        let (agent, task) = (fields.non_empty_text("agent")?.to_owned(), task(fields, limits)?);
        let names = depends_on(fields)?;
        Ok(Self {
            agent,
            task,
            depends_on: names
                .into_iter()
                .enumerate()
                .map(dependency_at)
                .collect::<Result<_, _>>()?,
            options: TaskOptions::read(fields, limits)?,
            idempotency_key: idempotency_key(fields)?,
        })
    }
}

impl ContinueCall {
    pub(super) fn read(fields: &mut Fields, limits: &TextLimits) -> Result<Self, Refusal> {
        Ok(Self {
            task_id: task_id(fields)?,
            task: task(fields, limits)?,
            options: TaskOptions::read(fields, limits)?,
            idempotency_key: idempotency_key(fields)?,
        })
    }
}

impl BatchCall {
    /// The refusal of a wrong field of an item names both: `tasks[2].agent`.
    pub(super) fn read(fields: &mut Fields, limits: &TextLimits) -> Result<Self, Refusal> {
        let items =
            fields.array("tasks")?.ok_or_else(|| Refusal::invalid("tasks", "is required"))?;
        if items.is_empty() || items.len() > MAX_BATCH {
            return Err(Refusal::invalid(
                "tasks",
                format_args!("must be 1 to {MAX_BATCH} tasks, not {}", items.len()),
            ));
        }
        let queue = fields.boolean("queue")?.unwrap_or(false);
        let mut drafts = items
            .iter()
            .enumerate()
            .map(|item| read_item(item, limits))
            .collect::<Result<Vec<_>, _>>()?;
        let names: Vec<Option<&str>> = drafts.iter().map(|draft| draft.name).collect();
        for (place, name) in names.iter().enumerate() {
            if name.is_some() && names[..place].contains(name) {
                return Err(Refusal::invalid(
                    &format!("tasks[{place}].name"),
                    "is another task's name",
                ));
            }
        }
        let mut tasks = Vec::with_capacity(drafts.len());
        for (place, draft) in drafts.drain(..).enumerate() {
            let depends_on = draft
                .depends_on
                .iter()
                .enumerate()
                .map(|dependency| item_dependency(&names, dependency));
            let depends_on =
                depends_on.collect::<Result<_, _>>().map_err(|refusal| at(place, &refusal))?;
            let mut options = draft.options;
            options.queue |= queue;
            tasks.push(BatchItem {
                name: draft.name.map(str::to_owned),
                agent: draft.agent,
                task: draft.task,
                depends_on,
                options,
            });
        }
        Ok(Self { tasks, idempotency_key: idempotency_key(fields)? })
    }
}

/// A task of a batch whose dependencies are not resolved.
struct ItemDraft<'a> {
    name: Option<&'a str>,
    agent: String,
    task: String,
    depends_on: Vec<&'a str>,
    options: TaskOptions,
}

fn read_item<'a>(
    (place, item): (usize, &'a Value),
    limits: &TextLimits,
) -> Result<ItemDraft<'a>, Refusal> {
    if !item.is_object() {
        return Err(Refusal::invalid(&format!("tasks[{place}]"), "must be an object"));
    }
    let read = || {
        let mut fields = Fields::of(item)?;
        fields.refuse_unknown(&[BATCH_ITEM])?;
        let draft = ItemDraft {
            name: local_name(&mut fields)?,
            agent: fields.non_empty_text("agent")?.to_owned(),
            task: task(&mut fields, limits)?,
            depends_on: depends_on(&mut fields)?,
            options: TaskOptions::read(&mut fields, limits)?,
        };
        fields.end()?;
        Ok(draft)
    };
    read().map_err(|refusal| at(place, &refusal))
}

/// The name of a task in its batch. It has the form of an agent's name, never that of a task id.
fn local_name<'a>(fields: &mut Fields<'a>) -> Result<Option<&'a str>, Refusal> {
    let Some(name) = fields.optional_text("name")? else { return Ok(None) };
    check_agent_name(name)
        .map_err(|_| Refusal::invalid("name", "must be 1 to 64 characters of a-z, 0-9, _ and -"))?;
    if name.parse::<TaskNumber>().is_ok() {
        return Err(Refusal::invalid("name", "must not look like a task id"));
    }
    Ok(Some(name))
}

fn item_dependency(
    names: &[Option<&str>],
    (place, name): (usize, &&str),
) -> Result<ItemDependency, Refusal> {
    match names.iter().position(|known| *known == Some(*name)) {
        Some(item) => Ok(ItemDependency::Item(item)),
        None => dependency_at((place, name)).map(ItemDependency::Task),
    }
}

fn dependency_at((place, name): (usize, &str)) -> Result<TaskNumber, Refusal> {
    task_number(&format!("depends_on[{place}]"), name)
}

/// The refusal of a field of the task with this index in the batch.
fn at(place: usize, refusal: &Refusal) -> Refusal {
    Refusal::new(refusal.code, format!("tasks[{place}].{}", refusal.message))
}

fn task(fields: &mut Fields, limits: &TextLimits) -> Result<String, Refusal> {
    let task = fields.non_empty_text("task")?;
    limits.check_task(task)?;
    Ok(task.to_owned())
}

fn depends_on<'a>(fields: &mut Fields<'a>) -> Result<Vec<&'a str>, Refusal> {
    let names = fields.texts("depends_on")?.unwrap_or_default();
    if names.len() > MAX_TASK_IDS {
        return Err(Refusal::invalid(
            "depends_on",
            format_args!("must be at most {MAX_TASK_IDS} tasks, not {}", names.len()),
        ));
    }
    Ok(names)
}

impl TaskOptions {
    fn read(fields: &mut Fields, limits: &TextLimits) -> Result<Self, Refusal> {
        Ok(Self {
            queue: fields.boolean("queue")?.unwrap_or(false),
            priority: priority(fields)?,
            delay: delay(fields)?,
            timeout_s: timeout_s(fields)?,
            budget: Budget::take_from(fields)?,
            on_budget: OnBudget::take_from(fields)?,
            summary_prompt: summary_prompt(fields, limits)?,
            label: fields.short_text("label", MAX_LABEL_CHARS)?.map(str::to_owned),
            metadata: metadata(fields)?,
            webhook: fields
                .take("webhook")
                .map(|webhook| Webhook::parse("webhook", webhook))
                .transpose()?,
            pool: pool(fields)?,
        })
    }
}

fn priority(fields: &mut Fields) -> Result<i16, Refusal> {
    let priority = fields.integer("priority")?.unwrap_or(0);
    i16::try_from(priority).ok().filter(|_| PRIORITIES.contains(&priority)).ok_or_else(|| {
        let (lowest, highest) = (PRIORITIES.start(), PRIORITIES.end());
        Refusal::invalid("priority", format_args!("must be from {lowest} to {highest}"))
    })
}

fn pool(fields: &mut Fields) -> Result<Option<String>, Refusal> {
    let Some(name) = fields.optional_text("pool")? else { return Ok(None) };
    check_pool("pool", name)?;
    Ok(Some(name.to_owned()))
}

fn delay(fields: &mut Fields) -> Result<Option<Duration>, Refusal> {
    let Some(seconds) = fields.number("delay_s")? else { return Ok(None) };
    if !(0.0..=MAX_SECONDS).contains(&seconds) {
        return Err(Refusal::invalid(
            "delay_s",
            format_args!("must be from 0 to {MAX_SECONDS} seconds"),
        ));
    }
    Ok(Duration::try_from_secs_f64(seconds).ok().filter(|delay| !delay.is_zero()))
}

fn timeout_s(fields: &mut Fields) -> Result<Option<f64>, Refusal> {
    fields.number("timeout_s")?.map(|seconds| time_limit("timeout_s", seconds)).transpose()
}

/// A blank text counts as none.
fn summary_prompt(fields: &mut Fields, limits: &TextLimits) -> Result<Option<String>, Refusal> {
    let Some(text) = fields.optional_text("summary_prompt")?.filter(|text| !text.trim().is_empty())
    else {
        return Ok(None);
    };
    limits.check_prompt("summary_prompt", text)?;
    Ok(Some(text.to_owned()))
}

fn metadata(fields: &mut Fields) -> Result<Map<String, Value>, Refusal> {
    let Some(metadata) = fields.object("metadata")? else { return Ok(Map::new()) };
    let bytes = Value::Object(metadata.clone()).to_string().len();
    if bytes > MAX_METADATA_BYTES {
        return Err(Refusal::invalid(
            "metadata",
            format_args!("has {bytes} bytes as JSON and may have {MAX_METADATA_BYTES}"),
        ));
    }
    Ok(metadata.clone())
}
