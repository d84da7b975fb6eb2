//! Checks the claims of the demo in the database and in the model's log.

use std::collections::BTreeMap;
use std::time::Instant;

use adjutant_agent::{Spent, StoredTurn};
use adjutant_script::{RequestCounts, ScriptServer, TurnCount};
use adjutant_store::Store;
use anyhow::{Context, ensure};
use serde::Serialize;

use super::fleet::Kill;
use super::incident::{CULPRIT, EVIDENCE, WRITERS_TASK, researchers_task};
use super::orchestrator::StoryResult;
use super::{CAP, TASKS};

/// The verified figures. The names are the keys of `--json`.
#[derive(Debug, Serialize)]
pub struct VerifiedFacts {
    pub tasks: usize,
    pub completed: usize,
    /// The tasks that the killed worker held, and how many of them another worker resumed.
    pub held_by_the_killed: usize,
    pub resumed: usize,
    pub cap: i32,
    /// The highest number of slots in use, and of concurrent model calls.
    pub most_at_once: i64,
    pub most_calls_at_once: usize,
    #[serde(flatten)]
    pub usage: ModelUsage,
    pub input_tokens: i64,
    pub output_tokens: i64,
    pub cost_nanousd: i64,
    pub violations: usize,
}

/// The calls of the model, compared with the stored answers.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct ModelUsage {
    /// Requests that the model received.
    pub model_calls: usize,
    /// Answers that the model finished, which are paid for.
    pub answers_paid: usize,
    pub answers_stored: usize,
    /// How often an answer was requested again that was stored when the worker died. Must be 0.
    pub stored_requested_again: usize,
    /// Answers that were paid for but not stored, because their worker died first. At most one for
    /// each task that it held.
    pub answers_lost: usize,
    /// Answers whose reader was killed.
    pub answers_cut_off: usize,
}

/// The start and the end of every model call.
pub type CallTimes = Vec<(Instant, Instant)>;

pub async fn check(
    store: &Store,
    model: &ScriptServer,
    story: &StoryResult,
    most_at_once: i64,
    calls: CallTimes,
) -> anyhow::Result<VerifiedFacts> {
    let mut stored = BTreeMap::new();
    for task in &story.tasks {
        stored.insert(task.assignment.clone(), store.turns(task.status.id).await?);
    }
    let resumed = check_tasks(story, &stored)?;
    check_findings(model, story)?;
    ensure!(model.unexpected().is_empty(), "the model received unexpected requests");
    let usage = usage(model.request_counts(), &model.turns(), &story.kill, &stored)?;
    let most_calls_at_once = max_overlap(calls);
    let cap = usize::try_from(CAP)?;
    ensure!(
        most_at_once <= i64::from(CAP),
        "{most_at_once} tasks ran at once, but the cap is {CAP}"
    );
    ensure!(
        most_calls_at_once <= cap,
        "{most_calls_at_once} model calls ran at once, but the cap is {CAP}"
    );
    let violations = store.violations().await?;
    ensure!(violations.is_empty(), "invariants are violated: {violations:?}");
    let spent: Spent = story.tasks.iter().map(|task| task.status.spent()).sum();
    ensure!(spent.cost_nanousd > 0, "the tasks cost nothing");
    Ok(VerifiedFacts {
        tasks: TASKS,
        completed: story.tasks.len(),
        held_by_the_killed: story.kill.held.len(),
        resumed,
        cap: CAP,
        most_at_once,
        most_calls_at_once,
        usage,
        input_tokens: spent.input_tokens,
        output_tokens: spent.output_tokens,
        cost_nanousd: spent.cost_nanousd,
        violations: violations.len(),
    })
}

/// Every task completed once, and its cost is the sum of its turns. Returns how many tasks of the
/// killed worker were resumed.
fn check_tasks(
    story: &StoryResult,
    stored: &BTreeMap<String, Vec<StoredTurn>>,
) -> anyhow::Result<usize> {
    ensure!(
        story.tasks.len() == TASKS && stored.len() == TASKS,
        "{} of {TASKS} tasks ended",
        story.tasks.len()
    );
    let mut resumed = 0;
    for task in &story.tasks {
        let (number, status) = (task.status.number, &task.status);
        let turns = stored.get(&task.assignment).map(Vec::as_slice).unwrap_or_default();
        ensure!(
            Spent::on(turns) == status.spent(),
            "the cost of {number} is not the sum of its turns"
        );
        ensure!(usize::try_from(status.turns_used)? == turns.len(), "{number} lost a turn");
        // On an overloaded machine a lease may also expire under a live worker, which loses
        // nothing.
        if status.attempt > 1 && story.kill.held.contains(&status.id) {
            resumed += 1;
        }
    }
    let fatal = researchers_task(CULPRIT);
    let is_resumed = |assignment: &str| {
        story.tasks.iter().any(|task| task.assignment == assignment && task.status.attempt >= 2)
    };
    ensure!(is_resumed(&fatal), "the task of the killed worker was not resumed");
    Ok(resumed)
}

/// The content of a file reached the writer by way of a researcher, and every entry has its author.
fn check_findings(model: &ScriptServer, story: &StoryResult) -> anyhow::Result<()> {
    let read_by_the_writer = model.requests_of(WRITERS_TASK).iter().any(|request| {
        request.body.as_ref().is_some_and(|body| body.to_string().contains(EVIDENCE))
    });
    ensure!(read_by_the_writer, "the writer did not read the researcher's finding");
    for (entry, agent) in [(&story.fix, "remediator"), (&story.report, "writer")] {
        let signed = entry.written_by.starts_with(&format!("subagent:{agent}:t_"));
        ensure!(signed, "the entry of the {agent} was written by {}", entry.written_by);
    }
    Ok(())
}

/// Fails if a stored answer was requested again or paid for twice.
fn usage(
    tally: RequestCounts,
    turns: &[TurnCount],
    kill: &Kill,
    stored: &BTreeMap<String, Vec<StoredTurn>>,
) -> anyhow::Result<ModelUsage> {
    let mut usage = ModelUsage {
        model_calls: tally.requests,
        answers_cut_off: tally.hung_up,
        ..ModelUsage::default()
    };
    for turn in turns {
        let assignment = &turn.conversation.assignment;
        let turn_name = || format!("turn {} of {assignment:?}", turn.turn);
        let turns =
            stored.get(assignment).with_context(|| format!("{}: unknown task", turn_name()))?;
        let is_stored = usize::try_from(turn.turn)? <= turns.len();
        ensure!(is_stored, "{} was requested but is not stored", turn_name());
        ensure!(turn.answered > 0, "{} is stored but was never answered", turn_name());
        let stored_at_the_kill = kill.stored.get(assignment).copied().unwrap_or_default();
        if turn.turn <= stored_at_the_kill {
            let is_same = |before: &&TurnCount| {
                before.conversation == turn.conversation && before.turn == turn.turn
            };
            let requested_before =
                kill.requested.iter().find(is_same).map_or(0, |before| before.requested);
            usage.stored_requested_again += turn.requested - requested_before;
        }
        ensure!(
            turn.answered == 1 || turn.turn == stored_at_the_kill + 1,
            "{} was paid for {} times",
            turn_name(),
            turn.answered
        );
        usage.answers_paid += turn.answered;
        usage.answers_stored += 1;
    }
    let rows: usize = stored.values().map(Vec::len).sum();
    ensure!(
        usage.answers_stored == rows,
        "{rows} answers are stored, but {} were given",
        usage.answers_stored
    );
    usage.answers_lost = usage.answers_paid - usage.answers_stored;
    ensure!(
        usage.stored_requested_again == 0,
        "{} stored answers were requested again",
        usage.stored_requested_again
    );
    ensure!(
        usage.answers_lost <= kill.held.len(),
        "{} answers were paid for twice",
        usage.answers_lost
    );
    ensure!(usage.answers_cut_off > 0, "the worker was not killed during an answer");
    Ok(usage)
}

fn max_overlap(calls: CallTimes) -> usize {
    let mut changes: Vec<(Instant, i8)> =
        calls.into_iter().flat_map(|(began, ended)| [(began, 1), (ended, -1)]).collect();
    // Ends sort before starts at the same time, so that these do not overlap.
    changes.sort_unstable();
    let (mut now, mut most) = (0_usize, 0);
    for (_, change) in changes {
        now = now.saturating_add_signed(change.into());
        most = most.max(now);
    }
    most
}

impl VerifiedFacts {
    /// The figures as sentences.
    pub fn lines(&self) -> Vec<String> {
        let ModelUsage {
            model_calls,
            answers_paid,
            answers_stored,
            answers_lost,
            answers_cut_off,
            ..
        } = self.usage;
        let cost = format!(
            "{}.{:04}",
            self.cost_nanousd / 1_000_000_000,
            self.cost_nanousd % 1_000_000_000 / 100_000
        );
        let mut lines = vec![
            format!(
                "{} of {} tasks completed, each once; {} were resumed after their worker was killed",
                self.completed, self.tasks, self.resumed
            ),
            format!("at most {} tasks ran at once; the cap is {}", self.most_at_once, self.cap),
            format!(
                "the model received {model_calls} calls: {answers_paid} answered, {answers_cut_off} cut off by the kill"
            ),
            format!(
                "{answers_stored} answers are stored, and none was requested again: nothing was paid twice"
            ),
        ];
        if answers_lost > 0 {
            lines.push(format!(
                "{answers_lost} answers arrived but were not stored before the kill"
            ));
        }
        lines.push(format!(
            "total cost {cost} USD: {} input tokens, {} output tokens",
            self.input_tokens, self.output_tokens
        ));
        lines.push(format!("violated invariants: {}", self.violations));
        lines
    }
}

#[cfg(test)]
mod tests;
