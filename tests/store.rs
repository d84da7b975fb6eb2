//! The store and its SQL functions, called directly on a database of the test's own. No process is
//! started here. A race is placed, not timed: a transaction is held open at a point, the other one
//! is seen to wait, then the first one commits.

pub mod agents;
pub mod audit;
pub mod batched_calls;
pub mod budgets;
pub mod cancel;
pub mod cap;
pub mod children;
pub mod claim;
pub mod collect;
pub mod delete;
pub mod dependencies;
pub mod drafts;
pub mod driver;
pub mod end_and_claim;
pub mod events;
pub mod failed_calls;
pub mod fairness;
pub mod grants;
pub mod history;
pub mod idempotency;
pub mod keys;
pub mod lease;
pub mod lock_order;
pub mod locks;
pub mod model_limits;
pub mod pools;
pub mod preflight;
pub mod publishers;
pub mod queue_order;
pub mod reports;
mod requirement_ends;
pub mod requirements;
pub mod retry;
pub mod scale;
pub mod schema;
pub mod shared_context;
pub mod snapshots;
pub mod spawn;
pub mod storage_ends;
pub mod sweep;
pub mod trees;
pub mod usage;
pub mod waits;
pub mod why;
mod why_codes;
