//! One integration binary over real processes and a real PostgreSQL. Each test has a database of its own.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expects by failing")]
#![expect(clippy::duplicate_mod, reason = "every example has the scene of all of them in it")]

mod world;

mod agents;
mod agents_at_work;
mod cancel;
mod cap;
mod claim;
mod clearance;
mod cli;
mod collect;
mod command;
mod config;
mod conformance;
mod dependencies;
mod dialects;
mod drafts;
mod driver;
mod ecs;
mod embedding;
mod events;
mod fleet;
mod history;
mod http;
mod idempotency;
mod keys;
mod lease;
mod mcp;
mod model;
mod mutants;
mod nested;
mod nesting;
mod order;
mod parents;
mod private_postgres;
mod real;
mod retry;
mod schema;
mod script_model;
mod shared_context;
mod snapshots;
mod spawn;
mod spec;
mod sweep;
mod telemetry;
mod together;
mod turn_over;
mod weakincentives;
mod webhooks;
