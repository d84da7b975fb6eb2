//! The protocol of the store, checked exhaustively: every interleaving of the statements of a few transactions.
//!
//! A state is the database, with the row locks and uncommitted writes of the transactions in flight, plus what workers believe
//! they hold. An action is one statement, a commit, or bad luck: a rollback, a commit that its client does not hear of, a
//! crash, an expiry. The rules are those of PostgreSQL at READ COMMITTED: a statement sees the newest committed rows and
//! its own transaction's writes; a lock waits or skips; a row that was waited for is looked at anew, and nothing else is.
//!
//! `configurations.rs` has the worlds that are searched and what must be reached in each, `properties.rs` what must hold in
//! all of them, `mutants.rs` the proof that each guard is needed. The other files are the verbs. To read a
//! counterexample: actors are the workers, then the sweepers, then the requests, in the order of the configuration.
//!
//! # Why these bounds suffice
//!
//! - **Two or three workers, one to three slots.** Slots and queue rows are interchangeable and a claim never waits, so a race
//!   for one is between the two who want it; the third worker, or the second slot, is the bystander that must not be hurt.
//! - **One session, in three configurations two.** Sessions share only slots and queue. Who locks several locks them in the
//!   order of their ids, and a circle of any length has a pair in it that does not.
//! - **A cap of 2 that goes to 1 and 3, one of 3 that goes to 2.** One task in a closed slot beside no, one or two free open
//!   ones: a claim that must keep all of them empty, and one that may fill the rest.
//! - **Three or four tasks.** Every rule speaks of one task and its neighbours: two dependencies of one task and a chain of
//!   two behind them, two children of one parent, three generations, one task more than the window or the cap holds.
//! - **One or two of each misfortune.** A second crash or rollback meets a database that the first has left in a state which is
//!   reachable without it. Two expiries make one lease stale twice, which is `max_failures` here.
//! - **Leases are numbered per task**: the fence compares (task, lease), so which number is fresh does not matter.
//!
//! Every verb ends, and each but a claim that finds nothing uses up work or a budget; so a world in which nothing can happen
//! is where every run ends that has no endless bad luck, and `DRAINED` says that it holds no unfinished task.
//!
//! # What is left out
//!
//! Pools and priorities, delays (`not_before`), budgets of tokens, events, idempotency keys, the clock (a lease may expire at any
//! time, which is more than a clock allows), the replay of tools, and PostgreSQL itself: the tests against a real one show
//! that the functions are these statements. A claim locks its slots one by one, but its queue rows at one instant: what it
//! gets of them it has alone, whichever they are.

#![cfg(test)]

mod admit;
mod cancel;
mod cap;
mod claim;
mod configurations;
mod ends;
mod fence;
mod guard;
mod mutants;
mod properties;
mod protocol;
mod rows;
mod statements;
mod transaction;
