//! The durable state of Adjutant in PostgreSQL. Every task is a row, every verb is one function,
//! and all SQL of the program is here or in `migrations/`.
//!
//! # States of a task
//!
//! ```text
//!                  spawn                       claim
//!   dependencies? -------> queued ----------------------> running (a slot holds the task)
//!         |                 ^  ^                            |  |  |
//!         v  all completed  |  |  release, sweep            |  |  |  complete, fail, cancel, sweep
//!      waiting -------------+  +----------------------------+  |  v
//!         ^                 |                                  |  completed | failed | cancelled
//!         |                 +-- children ended, budget raised  |
//!         +----------------------------------------------------+
//!                           wait for children, pause
//! ```
//!
//! Released, swept and woken tasks go to the front of the queue. A waiting task can be cancelled,
//! too, and fails if a dependency does not complete.
//!
//! # Invariants
//!
//! They hold at every instant, whichever process dies. Each has a test in `tests/`, and the SQL
//! view `invariant_violation` lists the rows that break one.
//!
//! - At most as many tasks run as there are open slots.
//! - A spawn that was answered is never lost. Its task reaches exactly one terminal state and then
//!   never changes, except that it may be collected.
//! - A worker without the lease writes nothing: each of its writes first locks the slot's row by
//!   lease id.
//! - A task's reasons to wait are checked under its session's lock, so no wake-up is lost.
//! - Tasks of a tenant are claimed first in, first out per pool and priority, by their entry into
//!   the queue; tenants and pools share the slots.
//!
//! # Modules
//!
//! - **spawn**: `delegate`, `spawn`, `spawn_concurrent`, `new_tasks`, `batch`, `quota`,
//!   `children`, `retry_and_continue`, `idempotency`
//! - **claim and run**: `worker`, `claim`, `lease`, `renew`, `record_starts`, `gate`,
//!   `failed_call`, `checkpoint`, `tool_result`, `shared_context`, `draft`
//! - **end**: `end`, `end_and_claim`, `release`, `wait_for_children`, `cancel`, `sweep`
//! - **money**: `preflight`, `budget`, `raise`, `broken_call`
//! - **notify and poll**: `worker_notifier`, `event_notifier`, `listen`, `poll`
//! - **read**: `status`, `wait_for_ends`, `collect`, `read_result`, `events`, `history`,
//!   `task_record`, `stored_turns`, `turn_history`, `logged_ends`
//! - **sessions and agents**: `session`, `session_details`, `session_archive`, `session_webhook`,
//!   `agents`, `tools`
//! - **tenants**: `tenant`, `tenant_archive`, `keys`, `stats`
//! - **webhooks**: `webhook_delivery`, `webhook_delivery_log`, `webhook_secrets`
//! - **operation**: `cap`, `fleet`, `health`, `schema`, `maintenance`, `invariants`, `bench`
//! - **infrastructure**: `store`, `connection_pool`, `batcher`, `json`, `text`, `error`
//!
//! Servers and clients use [`Store`]. A worker registers as a [`Worker`], claims [`Lease`]s, and
//! writes through them. The method that ends an attempt consumes the lease and returns an
//! [`Ending`], which can be written repeatedly until the database has answered.

mod abilities;
mod actor;
mod agents;
mod audit;
mod batch;
mod batcher;
mod bench;
mod broken_call;
mod budget;
mod bulk;
mod cancel;
mod cap;
mod checkpoint;
mod children;
mod claim;
mod collect;
mod connection_pool;
mod delegate;
mod draft;
mod end;
mod end_and_claim;
mod error;
mod event_notifier;
mod events;
mod failed_call;
mod fleet;
mod gate;
mod health;
mod history;
mod idempotency;
mod invariants;
mod json;
mod keys;
mod lease;
mod listen;
mod logged_ends;
mod maintenance;
mod model_limits;
mod new_tasks;
mod outage;
mod poll;
mod preflight;
mod publisher;
mod quota;
mod raise;
mod read_result;
mod record_starts;
mod release;
mod renew;
mod retry_and_continue;
mod schema;
mod session;
mod session_archive;
mod session_delete;
mod session_details;
mod session_webhook;
mod shared_context;
mod spawn;
mod spawn_concurrent;
mod stats;
mod status;
mod store;
mod stored_turns;
mod sweep;
mod task_record;
mod tenant;
mod tenant_archive;
mod text;
mod time_limits;
mod tool_result;
mod tools;
mod trouble;
mod turn_history;
mod wait_for_children;
mod wait_for_ends;
mod webhook_delivery;
mod webhook_delivery_log;
mod webhook_secrets;
mod worker;
mod worker_notifier;

pub use abilities::{Abilities, LACKING_BATCH};
pub use actor::{Actor, ActorSource};
pub use adjutant_agent::{OnWorkerLoss, TaskView, timestamp};
pub use agents::{Agent, Redefinition};
pub use audit::{AuditEntry, AuditFilter};
pub use bench::{Bare, EndedAttempt, Insert};
pub use broken_call::{BrokenCall, BrokenCallRecord};
pub use budget::CurrentBudget;
pub use bulk::{BulkAction, BulkBatch, SkipReason};
pub use cancel::{Cancelled, CancelledTask};
pub use cap::{AdoptedCap, Slots};
pub use claim::{Assignment, Claim};
pub use collect::Collected;
pub use delegate::{NewDelegation, Operator};
pub use draft::Draft;
pub use end::{Ending, Unwritten};
pub use end_and_claim::EndAndClaim;
pub use error::Error;
pub use event_notifier::{LiveText, TextFilter, Watcher};
pub use events::{
    Event, EventPage, EventQuery, EventTexts, StoredAnswer, TaskSession, TextRef, UsedTool,
};
pub use failed_call::{FailedCall, FailedTries};
pub use fleet::{Fleet, PoolStats};
pub use gate::{ClosedGate, GateCause, GateReason, Probe};
pub use health::DatabaseHealth;
pub use history::{Cursor, Page, TaskEntry, TaskFilter};
pub use idempotency::IdempotencyKey;
pub use invariants::Violation;
pub use keys::{ApiKey, KeyEnd, NewKey};
pub use lease::Lease;
pub use listen::{Listener, Notice};
pub use logged_ends::LoggedEnd;
pub use model_limits::{
    GRANT_VALIDITY, Grant, ModelLimits, ModelReservation, Remaining, RemainingQuota, Reserved,
    ReservedCall, UsageChange, WantedCall,
};
pub use poll::PollResult;
pub use preflight::{Account, Preflight};
pub use publisher::{DEFAULT_CONFIG, PublishedConfig, Publisher};
pub use quota::{QUOTA_EXCEEDED, Quota};
pub use read_result::ResultPage;
pub use record_starts::StartedAttempt;
pub use renew::Renewal;
pub use schema::{Migrated, SchemaMismatch};
pub use session::{NewSession, Session, SessionChange};
pub use session_delete::DeletionsLeft;
pub use session_details::{SessionDetails, SessionEntry};
pub use session_webhook::SessionWebhook;
pub use spawn::{Dependency, NewTask, Spawned, TaskContext};
pub use stats::{QueueStats, SlotStats, Stats, Sums};
pub use status::SessionTasks;
pub use store::{Connections, DEFAULT_CONTEXT_VERSIONS, Store};
pub use sweep::Swept;
pub use task_record::{AttemptRecord, TaskRecord};
pub use tenant::{Tenant, TenantChange, TenantLimits, TenantUsage};
pub use tools::PublishedTool;
pub use trouble::{
    DownServer, FailingTool, HeldModel, LargestTenant, LongTransaction, LostWorker, PoolLoad,
    RecentFailures, RetriedCalls, Trouble, UnablePool,
};
pub use turn_history::{CallRecord, ResultRecord, TurnPage, TurnRecord};
pub use wait_for_ends::{Check, EndWait, EndedTasks, NotificationWait};
pub use webhook_delivery::{DeliveredTask, Delivery, DeliveryResponse};
pub use webhook_delivery_log::{DeliveryFilter, DeliveryRecord};
pub use webhook_secrets::{SecretFrom, WebhookSecret};
pub use worker::{NewWorker, Worker};
pub use worker_notifier::NotifyTarget;

/// The result of a call of the store.
pub type Result<T> = std::result::Result<T, Error>;
