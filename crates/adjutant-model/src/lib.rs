//! A model of the store's protocol, explored exhaustively: every interleaving of the statements of
//! a few transactions.
//!
//! A state is the database, with the row locks and uncommitted writes of the transactions in
//! flight, and the leases that each worker believes it holds. An action is one statement, a commit,
//! or a fault: a rollback, a commit whose answer is lost, a crash, an expiry. The rules are those
//! of PostgreSQL at READ COMMITTED: a statement sees the newest committed rows and its own
//! transaction's writes; a lock waits or skips; only a row that was waited for is read again.
//!
//! `configurations.rs` has the configurations and the states that must be reached in each,
//! `properties.rs` the properties that must hold in all of them, `mutants.rs` the proof that each
//! guard is needed. The other files are the verbs. In a counterexample, actors are numbered: the
//! workers, then the sweepers, then the requests, in the order of the configuration.
//!
//! # Why these bounds suffice
//!
//! - **Two or three workers, one to three slots.** Slots and queue rows are interchangeable and a
//!   claim never waits, so a race for one is between two workers; the third worker, or the second
//!   slot, is an uninvolved one that must not be affected.
//! - **One session, in three configurations two.** Sessions share only slots and queue. A
//!   transaction locks several sessions in the order of their ids; a deadlock of any length would
//!   contain a pair of transactions that does not.
//! - **A cap of 2 that goes to 1 and 3, one of 3 that goes to 2.** One task in a closed slot, with
//!   zero, one or two free open slots: a claim that must keep all of them empty, and one that may
//!   fill the rest.
//! - **Three or four tasks.** Every rule is about one task and its neighbours: two dependencies of
//!   one task and a chain of two dependants, two children of one parent, three generations, one
//!   task more than the window or the cap allows.
//! - **One or two of each fault.** A second crash or rollback starts from a state that is also
//!   reachable without the first. Two expiries make one lease stale twice, which is `max_failures`
//!   here.
//! - **Leases are numbered per task.** The fence compares (task, lease), so the number itself does
//!   not matter.
//!
//! Every verb terminates, and each except for an empty claim uses up work or a budget of faults. So
//! every run with finitely many faults ends in a state without further actions, and `DRAINED` says
//! that such a state has no unfinished task.
//!
//! # What is left out
//!
//! Pools and priorities, delays (`not_before`), token budgets, events, idempotency keys, the clock
//! (a lease may expire at any time, which allows more than a clock), the replay of tools, and
//! PostgreSQL itself: the tests with a real server show that the SQL functions are these
//! statements. A claim locks its slots one by one, but its queue rows in one step: no other
//! transaction shares the rows that it locks.

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
