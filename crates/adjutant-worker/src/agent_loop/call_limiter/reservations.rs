//! Reserves calls of one model for all tasks of this process, a few times a second at most.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use adjutant_agent::WorkerId;
use adjutant_store::{
    Error, GRANT_VALIDITY, Grant, ModelLimits, ModelReservation, Remaining, RemainingQuota,
    Reserved, Store, UsageChange, WantedCall, warn_unless_outage,
};
use tokio::sync::{mpsc, oneshot};

use super::{CallGrant, EndedCall, Message, Permission};
use crate::Task;
use crate::agent_loop::call_model::LONGEST_WAIT;

/// Between two reservations.
const PAUSE: Duration = Duration::from_millis(200);
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);

/// A task that gives its slot back stays away for at least this time.
const SHORTEST_RELEASE: Duration = Duration::from_secs(2);

/// The demand is measured over at least this time.
const MEASURED_TIME: Duration = Duration::from_secs(1);

pub(super) struct Reservations {
    store: Store,
    worker: WorkerId,
    lease: Duration,
    model: String,
    limits: ModelLimits,
    messages: mpsc::UnboundedReceiver<Message>,
    sender: mpsc::WeakUnboundedSender<Message>,
    waiting: Vec<Waiting>,
    /// Grants that have not ended.
    calls: i64,
    spare: Spare,
    demand: Demand,
    report: Report,
    reserved_at: Option<Instant>,
    has_failed: bool,
}

#[derive(Debug)]
struct Waiting {
    call: WantedCall,
    answer: oneshot::Sender<Permission>,
    since: Instant,
    retry_at: Instant,
}

/// Grants for tasks that have not asked yet.
#[derive(Debug)]
struct Spare {
    grant: Grant,
    second: i64,
    until: Instant,
}

/// What tasks have asked for since a time.
#[derive(Debug)]
struct Demand {
    since: Instant,
    wanted: Grant,
}

/// What the next reservation reports.
#[derive(Debug, Default)]
struct Report {
    /// By the second of the grant.
    changes: BTreeMap<i64, Grant>,
    ended: u32,
    took: Duration,
    remaining: Option<(Remaining, Instant)>,
    is_urgent: bool,
}

impl Reservations {
    /// Starts the loop. It runs until all senders are gone.
    pub(super) fn start(
        task: &Task,
        model: String,
        limits: ModelLimits,
    ) -> mpsc::UnboundedSender<Message> {
        let (sender, messages) = mpsc::unbounded_channel();
        let now = Instant::now();
        let reservations = Self {
            store: task.lease.store().clone(),
            worker: task.worker(),
            lease: task.lease_time(),
            model,
            limits,
            messages,
            sender: sender.downgrade(),
            waiting: Vec::new(),
            calls: 0,
            spare: Spare { grant: Grant::default(), second: 0, until: now },
            demand: Demand { since: now, wanted: Grant::default() },
            report: Report::default(),
            reserved_at: None,
            has_failed: false,
        };
        tokio::spawn(reservations.run());
        sender
    }

    async fn run(mut self) {
        loop {
            let next = self.next_reservation();
            let due = tokio::time::sleep_until(next.unwrap_or_else(Instant::now).into());
            tokio::select! {
                biased;
                message = self.messages.recv() => match message {
                    Some(message) => self.receive(message),
                    None => return,
                },
                () = due, if next.is_some() => self.reserve().await,
            }
        }
    }

    fn receive(&mut self, message: Message) {
        match message {
            Message::Wanted { call, answer } => {
                self.demand.wanted.requests += 1;
                self.demand.wanted.tokens += call.tokens;
                match self.take_spare(&call) {
                    // A grant that nobody takes returns itself when it is dropped.
                    Some(grant) => drop(answer.send(Permission::Granted(grant))),
                    None => {
                        let now = Instant::now();
                        self.waiting.push(Waiting { call, answer, since: now, retry_at: now });
                    }
                }
            }
            Message::Ended(ended) => {
                self.calls -= 1;
                let is_limited = self.limits.max_concurrency.is_some();
                self.report.add(&ended, is_limited);
            }
            Message::Remaining { remaining, at } => {
                self.report.remaining = Some((remaining, at));
                self.report.is_urgent = true;
            }
        }
    }

    /// Spare calls are granted only while nobody waits.
    fn take_spare(&mut self, call: &WantedCall) -> Option<CallGrant> {
        let Grant { requests, tokens } = self.spare.grant;
        if !self.waiting.is_empty()
            || requests < 1
            || tokens < call.tokens
            || self.spare.until <= Instant::now()
        {
            return None;
        }
        let grant = self.grant(self.spare.second, call.tokens, self.spare.until)?;
        self.spare.grant = Grant { requests: requests - 1, tokens: tokens - call.tokens };
        Some(grant)
    }

    fn grant(&mut self, second: i64, tokens: i64, until: Instant) -> Option<CallGrant> {
        let messages = self.sender.upgrade()?;
        self.calls += 1;
        Some(CallGrant { messages, second, tokens, used_tokens: None, until, sent_at: None })
    }

    /// When to reserve next; none if there is nothing to reserve, to report or to renew.
    fn next_reservation(&self) -> Option<Instant> {
        let pause = if self.has_failed { PAUSE_AFTER_ERROR } else { PAUSE };
        let earliest = self.reserved_at.map_or_else(Instant::now, |at| at + pause);
        let has_permits = self.limits.max_concurrency.is_some() && self.calls > 0;
        let times = [
            self.waiting.iter().map(|waiting| waiting.retry_at).min(),
            self.report.is_urgent.then_some(earliest),
            (self.spare.grant.requests > 0).then_some(self.spare.until),
            self.reserved_at.filter(|_| has_permits).map(|at| at + self.lease / 3),
        ];
        times.into_iter().flatten().min().map(|at| at.max(earliest))
    }

    async fn reserve(&mut self) {
        self.return_unused_spare();
        self.waiting.retain(|waiting| !waiting.answer.is_closed());
        let wanted: Vec<WantedCall> = self.waiting.iter().map(|waiting| waiting.call).collect();
        let spare =
            if self.spare.grant.requests > 0 { Grant::default() } else { self.demand.next() };
        let report = std::mem::take(&mut self.report);
        let requested_at = Instant::now();
        let reserved = self
            .store
            .reserve_model_calls(&ModelReservation {
                model: &self.model,
                worker: self.worker,
                lease: self.lease,
                limits: self.limits,
                wanted: &wanted,
                spare,
                held: self.calls + self.spare.grant.requests,
                changes: &report.changes(),
                call_time: report.took.checked_div(report.ended),
                remaining: report.remaining(),
            })
            .await;
        self.reserved_at = Some(requested_at);
        self.has_failed = reserved.is_err();
        match reserved {
            Ok(reserved) => self.hand_out(&reserved, requested_at),
            Err(error) => self.retry_later(report, &error),
        }
    }

    fn hand_out(&mut self, reserved: &Reserved, requested_at: Instant) {
        let until = requested_at + GRANT_VALIDITY;
        if reserved.spare.requests > 0 {
            self.spare = Spare { grant: reserved.spare, second: reserved.second, until };
        }
        let now = Instant::now();
        for mut waiting in std::mem::take(&mut self.waiting) {
            let answer = reserved.tasks.iter().find(|call| call.task == waiting.call.task);
            let wait = answer.map_or(Some(PAUSE_AFTER_ERROR), |call| call.wait);
            let tokens = answer.map_or(0, |call| call.tokens);
            match wait {
                None => {
                    let grant = self.grant(reserved.second, tokens, until);
                    let granted =
                        grant.map(|grant| waiting.answer.send(Permission::Granted(grant)));
                    drop(granted);
                }
                Some(wait) if waiting.since.elapsed() + wait > LONGEST_WAIT => {
                    let later = Permission::Later(wait.max(SHORTEST_RELEASE));
                    drop(waiting.answer.send(later));
                }
                Some(wait) => {
                    waiting.retry_at = now + wait;
                    self.waiting.push(waiting);
                }
            }
        }
    }

    /// The call may have been made although its answer did not come. So nothing is returned again,
    /// but what was used beyond the estimates is reported again.
    fn retry_later(&mut self, report: Report, error: &Error) {
        warn_unless_outage!(
            error,
            model.name = self.model,
            "reservation of calls of model {} failed, retrying: {error}",
            self.model
        );
        for (second, change) in report.changes {
            if change.tokens > 0 {
                let again = self.report.changes.entry(second).or_default();
                again.tokens += change.tokens;
            }
        }
        self.report.is_urgent = true;
    }

    fn return_unused_spare(&mut self) {
        if self.spare.until <= Instant::now() {
            let Grant { requests, tokens } = std::mem::take(&mut self.spare.grant);
            if requests > 0 || tokens > 0 {
                let change = self.report.changes.entry(self.spare.second).or_default();
                change.requests -= requests;
                change.tokens -= tokens;
            }
        }
    }
}

impl Demand {
    /// As many calls as tasks have asked for in a second.
    fn next(&mut self) -> Grant {
        let elapsed = self.since.elapsed().max(MEASURED_TIME).as_millis();
        let per_second = |count: i64| {
            let count = i128::from(count) * 1000 / i128::try_from(elapsed).unwrap_or(i128::MAX);
            i64::try_from(count).unwrap_or_default()
        };
        let Grant { requests, tokens } = self.wanted;
        let next = Grant { requests: per_second(requests), tokens: per_second(tokens) };
        if self.since.elapsed() > MEASURED_TIME {
            *self = Self { since: Instant::now(), wanted: Grant::default() };
        }
        next
    }
}

impl Report {
    fn add(&mut self, ended: &EndedCall, permit_is_limited: bool) {
        if ended.requests != 0 || ended.tokens != 0 {
            let change = self.changes.entry(ended.second).or_default();
            change.requests += ended.requests;
            change.tokens += ended.tokens;
            self.is_urgent = true;
        }
        if let Some(took) = ended.took {
            self.ended += 1;
            self.took += took;
        }
        self.is_urgent |= permit_is_limited;
    }

    fn changes(&self) -> Vec<UsageChange> {
        let change = |(&second, grant): (&i64, &Grant)| UsageChange {
            second,
            requests: grant.requests,
            tokens: grant.tokens,
        };
        self.changes.iter().map(change).collect()
    }

    /// Without limits that have been reset since.
    fn remaining(&self) -> Remaining {
        let Some((remaining, at)) = self.remaining else { return Remaining::default() };
        let now = |quota: RemainingQuota| {
            let resets_in = quota.resets_in.checked_sub(at.elapsed())?;
            Some(RemainingQuota { resets_in, ..quota })
        };
        Remaining {
            requests: remaining.requests.and_then(now),
            tokens: remaining.tokens.and_then(now),
        }
    }
}
