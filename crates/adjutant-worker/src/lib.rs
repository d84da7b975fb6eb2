//! A worker: one process that claims tasks, runs them and ends them, beside any number of others.
//!
//! ```text
//!  listen ─┐ hears notices                    renew: all leases in one statement, on its own connection
//!          v
//!  poll ─> turnover ─────────> backend ─────> attempt
//!  looks   ends what is done,  apalis runs    the handler decides
//!  around  then claims         what was       how it ends
//!          ^                   claimed           │
//!          └─────────────────────────────────────┘
//! ```
//!
//! What holds, whatever dies:
//!
//! - it claims only what it can run at once, and holds nothing in store;
//! - a lease that it cannot renew in time is one that it stops working under, by its own clock, before others may take it;
//! - an outcome that was reached is kept until the database has taken it or has said that the lease is lost;
//! - notices are hints: without any of them everything happens, a little later.
//!
//! What a task does is up to the [`Handler`]: [`Agents`] runs agents, and [`Hooked`] puts [`Hooks`] around any other.

mod agents;
mod announce;
mod attempt;
mod backend;
mod claim;
mod draft;
mod end;
pub mod fault;
mod handler;
mod held;
mod hooks;
mod listen;
pub mod model;
pub mod payloads;
mod poll;
mod renew;
mod report;
mod saying;
mod settings;
mod station;
mod task;
mod tell_ends;
mod telling;
pub mod tools;
pub mod trace;
mod turnover;
mod webhooks;
mod worker;

pub use agents::{Agents, Delegating, Models};
pub use handler::{End, Handler, Stop};
pub use hooks::{AttemptOf, Hooked, Hooks, Stopped};
pub use settings::Settings;
pub use task::{Cleared, Task};
pub use webhooks::WebhookSettings;
pub use worker::{Drained, Worker};
