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
//! - **One session, in two configurations two.** Sessions share only slots, queue and limits, and nobody locks two.
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
//! Pools and priorities, delays (`not_before`), budgets of tokens, events, more than one task per finish or sweep, locks
//! across sessions, the clock (a lease may expire at any time, which is more than a clock allows), the replay of tools, and
//! PostgreSQL itself: the tests against a real one show that the functions are these statements.

mod cancel;
mod cap;
mod claim;
mod configurations;
mod fence;
mod guard;
mod let_in;
mod mutants;
mod properties;
mod protocol;
mod rows;
mod statements;
mod transaction;
