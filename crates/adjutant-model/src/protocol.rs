//! The model: the actions that are possible in a state, and the states that they lead to.

use super::claim;
use super::ends;
use super::guard::Guard;
use super::properties;
use super::rows::{Budget, HeldLease, Holder, Lease, Row, Slot, State, Task, TaskId, World};
use super::statements;
use super::transaction::{Actor, End, Step, Tx, Verb};
use stateright::{Model, Property};
use std::collections::BTreeSet;

/// The constant properties of a task.
#[derive(Clone, Debug)]
pub struct Plan {
    pub session: usize,
    pub parent: Option<TaskId>,
    pub dependencies: Vec<TaskId>,
    pub waits_for_any: bool,
    /// Spawned before the model starts.
    pub exists: bool,
}

impl Plan {
    pub fn task() -> Self {
        Self { session: 0, parent: None, dependencies: vec![], waits_for_any: false, exists: true }
    }

    pub fn to_spawn() -> Self {
        Self { exists: false, ..Self::task() }
    }

    pub fn child_of(parent: TaskId) -> Self {
        Self { parent: Some(parent), exists: false, ..Self::task() }
    }

    pub fn after(dependencies: &[TaskId]) -> Self {
        Self { dependencies: dependencies.to_vec(), ..Self::task() }
    }
}

/// A named predicate on states: one that must always hold, or one that must be reached.
pub type Situation = (&'static str, fn(&Protocol, &World) -> bool);

#[derive(Clone)]
pub struct Protocol {
    pub plans: Vec<Plan>,
    pub workers: usize,
    /// The number of tasks that a worker runs, and claims at once.
    pub batch: usize,
    pub sweepers: usize,
    /// Each is made at most once, at any time, over its own connection.
    pub requests: Vec<Verb>,
    pub cap: usize,
    /// The largest cap of the configuration, and one more row for what a broken claim would insert.
    pub slots: usize,
    pub window: usize,
    pub max_failures: u8,
    pub budget: Budget,
    pub dropped: Option<Guard>,
    /// States that must be reached, so that the properties are not vacuously true.
    pub situations: Vec<Situation>,
}

impl Protocol {
    pub fn new(plans: Vec<Plan>, workers: usize, cap: usize) -> Self {
        Self {
            plans,
            workers,
            batch: 1,
            sweepers: 0,
            requests: vec![],
            cap,
            slots: cap + 1,
            window: 2,
            max_failures: 2,
            budget: Budget::default(),
            dropped: None,
            situations: vec![],
        }
    }

    pub fn drops(&self, guard: Guard) -> bool {
        self.dropped == Some(guard)
    }

    pub fn children(&self, parent: TaskId) -> impl Iterator<Item = TaskId> {
        (0..self.plans.len()).filter(move |&task| self.plans[task].parent == Some(parent))
    }

    /// Whether the condition that `parent` waits for holds, in the given view of the tasks.
    pub fn children_ended(&self, parent: TaskId, state_of: impl Fn(TaskId) -> State) -> bool {
        let mut children = self.children(parent);
        if self.plans[parent].waits_for_any {
            children.any(|child| state_of(child).is_terminal())
        } else {
            children.all(|child| state_of(child).is_terminal())
        }
    }

    fn first_request(&self) -> Actor {
        self.workers + self.sweepers
    }

    pub fn request_of(&self, actor: Actor) -> Option<usize> {
        actor.checked_sub(self.first_request())
    }

    fn empty_world(&self) -> World {
        let task = Task { state: State::Absent, attempt: 0, failures: 0, turns: 0 };
        let sessions = self.plans.iter().map(|plan| plan.session + 1).max().unwrap_or(0);
        World {
            sessions: vec![Row::new(()); sessions],
            tasks: vec![Row::new(task); self.plans.len()],
            turns: vec![0; self.plans.len()],
            queue: vec![],
            slots: (0..self.slots).map(|n| Row::new(Slot::new(n < self.cap))).collect(),
            cap_change: Row::new(()),
            leases: vec![0; self.plans.len()],
            held: vec![vec![]; self.workers],
            txs: vec![None; self.first_request() + self.requests.len()],
            answered: vec![false; self.requests.len()],
            budget: self.budget,
            faults: BTreeSet::new(),
        }
    }

    /// The actions of a worker on a task that it believes it holds.
    fn worker_verbs(
        &self,
        world: &World,
        HeldLease { task, lease, turns }: HeldLease,
    ) -> Vec<Verb> {
        let state_of = |it: TaskId| world.tasks[it].committed.state;
        let mut verbs = vec![];
        if let Some(child) = self.children(task).find(|&child| state_of(child) == State::Absent) {
            verbs.push(Verb::SpawnChild(task, lease, child));
        } else if self.children(task).next().is_none() || self.children_ended(task, state_of) {
            verbs.push(Verb::End(task, lease, End::Complete));
        } else {
            verbs.push(Verb::End(task, lease, End::Wait));
        }
        if world.budget.fails > 0 {
            verbs.push(Verb::End(task, lease, End::Fail));
        }
        if world.budget.releases > 0 {
            verbs.push(Verb::End(task, lease, End::Release));
        }
        if world.budget.turns > 0 || is_stored(world, task, lease, turns + 1) {
            verbs.push(Verb::Checkpoint(task, lease, turns + 1));
        }
        if world.holder_of(task).is_some_and(|holder| holder.lease == lease && holder.expired) {
            verbs.push(Verb::Renew(task, lease));
        }
        verbs
    }

    fn start(&self, world: &World, actor: Actor, verb: Verb) -> World {
        let mut world = world.clone();
        let is_retry = matches!(verb, Verb::Checkpoint(task, lease, number)
            if is_stored(&world, task, lease, number));
        let budget = &mut world.budget;
        match verb {
            Verb::Checkpoint(..) if is_retry => {}
            Verb::Checkpoint(..) => budget.turns -= 1,
            Verb::End(_, _, End::Fail) => budget.fails -= 1,
            Verb::End(_, _, End::Release) => budget.releases -= 1,
            Verb::End(_, _, End::Complete | End::Wait | End::Lost)
            | Verb::EndAll
            | Verb::Claim
            | Verb::Renew(..)
            | Verb::SpawnChild(..)
            | Verb::Spawn(_)
            | Verb::Cancel(_)
            | Verb::Sweep
            | Verb::SetCap(_) => {}
        }
        let step = match verb {
            Verb::Claim => Step::LockFreeSlots,
            Verb::Checkpoint(..) | Verb::Renew(..) => Step::Fence,
            Verb::End(..)
            | Verb::EndAll
            | Verb::SpawnChild(..)
            | Verb::Spawn(_)
            | Verb::Cancel(_)
            | Verb::Sweep => Step::LockSession,
            Verb::SetCap(_) => Step::LockCapChange,
        };
        let mut tx = Tx::new(verb, step);
        statements::read(self, &world, actor, &mut tx);
        if ends::is_reversed(self, verb) && !tx.slots.is_empty() {
            tx.step = Step::EmptySlots;
        }
        world.txs[actor] = Some(tx);
        world
    }

    /// The state after a verb without concurrent transactions.
    pub fn run_alone(&self, world: &World, actor: Actor, verb: Verb) -> World {
        let mut world = self.start(world, actor, verb);
        while world.txs[actor].is_some() {
            let Some(next) = statements::step(self, &world, actor) else {
                unreachable!("no other transaction holds a lock")
            };
            world = next;
        }
        world
    }

    /// Whether an action other than a fault or an optional request is still possible.
    pub fn is_at_rest(&self, world: &World) -> bool {
        let mut actions = vec![];
        self.actions(world, &mut actions);
        !actions.iter().any(|action| match action {
            Action::Step(_) => true,
            Action::Start(actor, Verb::Claim) => claim::alone(self, world, *actor) > 0,
            Action::Start(actor, _) => self.request_of(*actor).is_none(),
            Action::Expire(slot) => world.slots[*slot]
                .committed
                .holder
                .is_some_and(|holder| !is_believed(world, holder)),
            Action::Abort(_) | Action::CommitUnanswered(_) | Action::Crash(_) => false,
        })
    }
}

/// Whether this turn is already stored: the answer of the commit was lost, and its worker repeats
/// it.
fn is_stored(world: &World, task: TaskId, lease: Lease, number: u8) -> bool {
    world.holder_of(task).is_some_and(|holder| holder.lease == lease && holder.turns >= number)
}

fn is_believed(world: &World, holder: Holder) -> bool {
    world.held.iter().flatten().any(|held| (held.task, held.lease) == (holder.task, holder.lease))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    Start(Actor, Verb),
    Step(Actor),
    /// The transaction is rolled back; its client lives and may try again.
    Abort(Actor),
    /// The transaction commits, but its client sees a broken connection and tries again.
    CommitUnanswered(Actor),
    /// A worker loses its memory and its connection; a new process takes its place.
    Crash(Actor),
    Expire(usize),
}

impl Model for Protocol {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let mut world = self.empty_world();
        // The last actor is idle at the start, so it can spawn what exists already.
        world.txs.push(None);
        let actor = world.txs.len() - 1;
        for task in (0..self.plans.len()).filter(|&task| self.plans[task].exists) {
            world = self.run_alone(&world, actor, Verb::Spawn(task));
        }
        world.txs.pop();
        vec![world]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        let idle = |actor: &Actor| world.txs[*actor].is_none();
        for worker in (0..self.workers).filter(idle) {
            let held = &world.held[worker];
            let verbs = held.iter().flat_map(|held| self.worker_verbs(world, *held));
            actions.extend(verbs.map(|verb| Action::Start(worker, verb)));
            if held.len() > 1 && held.iter().all(|held| self.children(held.task).next().is_none()) {
                actions.push(Action::Start(worker, Verb::EndAll));
            }
            if held.len() < self.batch && claim::sees_work(self, world, worker) {
                actions.push(Action::Start(worker, Verb::Claim));
            }
        }
        if world.slots.iter().filter_map(|slot| slot.committed.holder).any(|holder| holder.expired)
        {
            let sweepers = (self.workers..self.first_request()).filter(idle);
            actions.extend(sweepers.map(|it| Action::Start(it, Verb::Sweep)));
        }
        for (n, request) in self.requests.iter().enumerate() {
            let actor = self.first_request() + n;
            let known = match request {
                Verb::Cancel(task) => world.tasks[*task].committed.state != State::Absent,
                Verb::Spawn(task) => {
                    let mut dependencies = self.plans[*task].dependencies.iter();
                    dependencies.all(|it| world.tasks[*it].committed.state != State::Absent)
                }
                Verb::Claim
                | Verb::Checkpoint(..)
                | Verb::Renew(..)
                | Verb::End(..)
                | Verb::EndAll
                | Verb::SpawnChild(..)
                | Verb::Sweep
                | Verb::SetCap(_) => true,
            };
            if known && idle(&actor) && !world.answered[n] {
                actions.push(Action::Start(actor, *request));
            }
        }
        for actor in (0..world.txs.len()).filter(|actor| !idle(actor)) {
            actions.push(Action::Step(actor));
            if world.budget.aborts > 0 {
                actions.extend([Action::Abort(actor), Action::CommitUnanswered(actor)]);
            }
        }
        if world.budget.crashes > 0 {
            let busy = (0..self.workers).filter(|it| !idle(it) || !world.held[*it].is_empty());
            actions.extend(busy.map(Action::Crash));
        }
        for (n, slot) in world.slots.iter().enumerate() {
            if let Some(holder) = slot.committed.holder.filter(|holder| !holder.expired)
                && (world.budget.expiries > 0 || !is_believed(world, holder))
            {
                actions.push(Action::Expire(n));
            }
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        match action {
            Action::Start(actor, verb) => Some(self.start(last, actor, verb)),
            Action::Step(actor) => statements::step(self, last, actor),
            Action::Abort(actor) => {
                let mut world = last.clone();
                world.budget.aborts -= 1;
                world.roll_back(actor);
                Some(world)
            }
            Action::CommitUnanswered(actor) => {
                let mut world = statements::commit_unanswered(self, last, actor)?;
                world.budget.aborts -= 1;
                Some(world)
            }
            Action::Crash(worker) => {
                let mut world = last.clone();
                world.budget.crashes -= 1;
                world.roll_back(worker);
                world.held[worker].clear();
                Some(world)
            }
            Action::Expire(n) => {
                let mut world = last.clone();
                let holder = world.slots[n].committed.holder?;
                if is_believed(last, holder) {
                    world.budget.expiries -= 1;
                }
                world.slots[n].committed.holder = Some(Holder { expired: true, ..holder });
                Some(world)
            }
        }
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let kept =
            properties::promises().into_iter().map(|(name, is_so)| Property::always(name, is_so));
        let reached = self.situations.iter().map(|(name, is_so)| Property::sometimes(name, *is_so));
        kept.chain(reached).collect()
    }
}
