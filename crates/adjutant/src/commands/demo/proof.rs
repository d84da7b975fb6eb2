//! Whether what the story claims is true. Everything is looked up where it is: in the database, and at the model.

use std::collections::BTreeMap;
use std::time::Instant;

use adjutant_agent::{Spent, StoredTurn};
use adjutant_script::{ScriptServer, Tally, TurnCount};
use adjutant_store::Store;
use anyhow::{Context, ensure};
use serde::Serialize;

use super::fleet::Kill;
use super::incident::{CULPRIT, EVIDENCE, WRITERS_TASK, researchers_task};
use super::orchestrator::Told;
use super::{CAP, TASKS};

/// What was found to be true.
#[derive(Debug, Serialize)]
pub struct Facts {
    pub tasks: usize,
    pub completed: usize,
    /// Tasks that the killed worker had, and those that another went on with.
    pub held_by_the_killed: usize,
    pub resumed: usize,
    pub cap: i32,
    /// The most slots that were seen in use, and the most calls that the model had at once.
    pub most_at_once: i64,
    pub most_calls_at_once: usize,
    #[serde(flatten)]
    pub bill: Bill,
    pub input_tokens: i64,
    pub output_tokens: i64,
    pub cost_nanousd: i64,
    pub violations: usize,
}

/// What the model was asked and answered, beside what is stored.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bill {
    /// Requests that the model got.
    pub model_calls: usize,
    /// Those that it answered to the end: they are paid.
    pub answers_paid: usize,
    pub answers_stored: usize,
    /// Of those that were stored when the worker died: how often they were asked for again. Must be 0.
    pub stored_asked_again: usize,
    /// Paid, but their worker died before it could store them. At most one for each task that it had.
    pub answers_lost: usize,
    /// Answers that their reader did not live to see the end of.
    pub answers_cut_off: usize,
}

/// When each call of the model began and was over.
pub type Calls = Vec<(Instant, Instant)>;

pub async fn check(
    store: &Store,
    model: &ScriptServer,
    told: &Told,
    most_at_once: i64,
    calls: Calls,
) -> anyhow::Result<Facts> {
    let mut stored = BTreeMap::new();
    for task in &told.tasks {
        stored.insert(task.assignment.clone(), store.turns(task.status.id).await?);
    }
    let resumed = check_tasks(told, &stored)?;
    check_findings(model, told)?;
    ensure!(model.unexpected().is_empty(), "the model was asked what it should not be");
    let bill = bill(model.tally(), &model.turns(), &told.kill, &stored)?;
    let most_calls_at_once = most_at_once_of(calls);
    let cap = usize::try_from(CAP)?;
    ensure!(most_at_once <= i64::from(CAP), "{most_at_once} tasks ran at once, and the cap is {CAP}");
    ensure!(most_calls_at_once <= cap, "{most_calls_at_once} calls were under way, and the cap is {CAP}");
    let violations = store.violations().await?;
    ensure!(violations.is_empty(), "invariants are broken: {violations:?}");
    let spent: Spent = told.tasks.iter().map(|task| task.status.spent).sum();
    ensure!(spent.cost_nanousd > 0, "it all cost nothing");
    Ok(Facts {
        tasks: TASKS,
        completed: told.tasks.len(),
        held_by_the_killed: told.kill.held.len(),
        resumed,
        cap: CAP,
        most_at_once,
        most_calls_at_once,
        bill,
        input_tokens: spent.input_tokens,
        output_tokens: spent.output_tokens,
        cost_nanousd: spent.cost_nanousd,
        violations: violations.len(),
    })
}

/// Each is done once, and its cost is that of its turns. How many of the dead worker's were taken over.
fn check_tasks(told: &Told, stored: &BTreeMap<String, Vec<StoredTurn>>) -> anyhow::Result<usize> {
    ensure!(told.tasks.len() == TASKS && stored.len() == TASKS, "{} of {TASKS} tasks", told.tasks.len());
    let mut resumed = 0;
    for task in &told.tasks {
        let (number, status) = (task.status.number, &task.status);
        let turns = stored.get(&task.assignment).map(Vec::as_slice).unwrap_or_default();
        ensure!(Spent::on(turns) == status.spent, "{number} cost something else than its turns");
        ensure!(usize::try_from(status.turns_used)? == turns.len(), "{number} has lost a turn");
        // On a machine that is short of time a lease may run out under a worker that lives: nothing is lost by that.
        if status.attempt > 1 && told.kill.held.contains(&status.id) {
            resumed += 1;
        }
    }
    let fatal = researchers_task(CULPRIT);
    let is_resumed = |assignment: &str| {
        told.tasks.iter().any(|task| task.assignment == assignment && task.status.attempt >= 2)
    };
    ensure!(is_resumed(&fatal), "the task that lost its worker did not go on elsewhere");
    Ok(resumed)
}

/// What was in a file has come to the writer by way of the researcher, and everyone signed what they wrote.
fn check_findings(model: &ScriptServer, told: &Told) -> anyhow::Result<()> {
    let read_by_the_writer = model
        .requests_of(WRITERS_TASK)
        .iter()
        .any(|request| request.body.as_ref().is_some_and(|body| body.to_string().contains(EVIDENCE)));
    ensure!(read_by_the_writer, "the writer has not read what the researcher found");
    for (entry, agent) in [(&told.fix, "remediator"), (&told.report, "writer")] {
        let signed = entry.written_by.starts_with(&format!("subagent:{agent}:t_"));
        ensure!(signed, "what the {agent} wrote is signed by {}", entry.written_by);
    }
    Ok(())
}

/// Fails if an answer that was stored has been asked for again, or was paid twice.
fn bill(
    tally: Tally,
    turns: &[TurnCount],
    kill: &Kill,
    stored: &BTreeMap<String, Vec<StoredTurn>>,
) -> anyhow::Result<Bill> {
    let mut bill = Bill { model_calls: tally.requests, answers_cut_off: tally.hung_up, ..Bill::default() };
    for turn in turns {
        let assignment = &turn.conversation.assignment;
        let what = || format!("turn {} of {assignment:?}", turn.turn);
        let turns = stored.get(assignment).with_context(|| format!("{}: whose is it?", what()))?;
        let is_stored = usize::try_from(turn.turn)? <= turns.len();
        ensure!(is_stored, "{} was asked for and is not stored", what());
        ensure!(turn.answered > 0, "{} is stored, but was never answered", what());
        let stored_at_the_kill = kill.stored.get(assignment).copied().unwrap_or_default();
        if turn.turn <= stored_at_the_kill {
            let is_same =
                |then: &&TurnCount| then.conversation == turn.conversation && then.turn == turn.turn;
            let asked_then = kill.asked.iter().find(is_same).map_or(0, |then| then.asked);
            bill.stored_asked_again += turn.asked - asked_then;
        }
        ensure!(
            turn.answered == 1 || turn.turn == stored_at_the_kill + 1,
            "{} was paid {} times",
            what(),
            turn.answered
        );
        bill.answers_paid += turn.answered;
        bill.answers_stored += 1;
    }
    let rows: usize = stored.values().map(Vec::len).sum();
    ensure!(bill.answers_stored == rows, "{rows} answers are stored, and {} were given", bill.answers_stored);
    bill.answers_lost = bill.answers_paid - bill.answers_stored;
    ensure!(bill.stored_asked_again == 0, "{} stored answers were asked for again", bill.stored_asked_again);
    ensure!(bill.answers_lost <= kill.held.len(), "{} answers were paid twice", bill.answers_lost);
    ensure!(bill.answers_cut_off > 0, "the worker was not killed in the middle of an answer");
    Ok(bill)
}

fn most_at_once_of(calls: Calls) -> usize {
    let mut changes: Vec<(Instant, i8)> =
        calls.into_iter().flat_map(|(began, ended)| [(began, 1), (ended, -1)]).collect();
    // What ends at the moment that another begins was not at once with it.
    changes.sort_unstable();
    let (mut now, mut most) = (0_usize, 0);
    for (_, change) in changes {
        now = now.saturating_add_signed(change.into());
        most = most.max(now);
    }
    most
}

impl Facts {
    /// For people, a line each.
    pub fn lines(&self) -> Vec<String> {
        let Bill { model_calls, answers_paid, answers_stored, answers_lost, answers_cut_off, .. } = self.bill;
        let cost = format!(
            "{}.{:04}",
            self.cost_nanousd / 1_000_000_000,
            self.cost_nanousd % 1_000_000_000 / 100_000
        );
        let mut lines = vec![
            format!(
                "{} of {} tasks completed, each once; {} of them went on after their worker's death",
                self.completed, self.tasks, self.resumed
            ),
            format!("never more than {} ran at once; the cap is {}", self.most_at_once, self.cap),
            format!(
                "the model counts {model_calls} calls: {answers_paid} answers given, {answers_cut_off} cut off by the death"
            ),
            format!(
                "{answers_stored} answers are stored, and none of them was asked for again: nothing paid twice"
            ),
        ];
        if answers_lost > 0 {
            lines.push(format!(
                "{answers_lost} answers came so late that their worker died before it could store them"
            ));
        }
        lines.push(format!(
            "all of it cost {cost} USD: {} tokens in, {} out",
            self.input_tokens, self.output_tokens
        ));
        lines.push(format!("broken invariants: {}", self.violations));
        lines
    }
}

#[cfg(test)]
mod tests;
