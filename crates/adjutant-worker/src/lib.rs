//! The worker: a process that claims tasks from PostgreSQL, runs them and stores how they end.
//!
//! Any number of workers run side by side and share nothing but the database. The protocol that
//! they follow (slots, leases, fences) is documented in `adjutant-store`; this crate drives it.
//!
//! ```text
//!  listen ──┐ wakes on NOTIFY                 renew: all leases in one statement,
//!           v                                        on a connection of its own
//!  poll ──> end_and_claim ──────────> backend ──────> attempt
//!  every    writes ends, then         apalis runs     runs the handler and
//!  2-4 s    claims new tasks          claimed tasks   decides how it ends
//!           ^                                            │
//!           └────────────────────────────────────────────┘
//! ```
//!
//! # Guarantees
//!
//! - A worker claims only tasks that it can start at once. It never buffers claims.
//! - A worker that cannot renew a lease stops working under it, by its own clock, before another
//!   worker may take the task over.
//! - An outcome that was reached is kept in memory until the database has stored it or has reported
//!   the lease as lost.
//! - Notifications are hints. Without them everything still happens, at the next poll, and the
//!   polls are 0.5 to 1 s apart.
//!
//! # Main types
//!
//! - [`Worker`] starts the loops and drains them. [`Settings`] configure it.
//! - [`Handler`] runs one attempt of a [`Task`] and returns its [`End`], or the reason to [`Stop`].
//! - [`Agents`] is the handler of `adjutant work`: it runs the agent loop with [`Models`] and a
//!   [`tools::Toolbox`]. [`Hooked`] wraps any handler with the [`Hooks`] of an embedding program.
//! - [`model`] calls language models, [`tools`] runs the tools that they ask for.
//!
//! Start reading at `worker.rs`, then `end_and_claim.rs` and `attempt.rs`; for agents, at
//! `agent_loop.rs`.

mod agent_loop;
mod answer_draft;
mod attempt;
mod backend;
mod claim;
mod delete_rows;
mod end;
mod end_and_claim;
pub mod fault;
mod handler;
mod hooks;
mod lease_table;
mod listen;
mod live_text;
pub mod model;
pub mod payloads;
mod poll;
mod renew;
mod settings;
mod start_events;
mod store_drafts;
mod subagent_events;
mod task;
mod telemetry;
pub mod tools;
pub mod trace;
mod webhooks;
mod worker;
mod worker_state;

pub use agent_loop::{Agents, DEFAULT_MODEL_PATIENCE, Delegating, Models};
pub use handler::{End, Handler, Stop};
pub use hooks::{AttemptInfo, Hooked, Hooks, Stopped};
pub use settings::Settings;
pub use task::{PreflightResult, Task};
pub use webhooks::WebhookSettings;
pub use worker::{Drained, Worker};
