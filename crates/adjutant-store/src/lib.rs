//! Durable delegation in PostgreSQL: every task is a row, every verb is one function, and all SQL is here or in
//! `migrations/`.
//!
//! ```text
//!                 spawn                      claim
//!   (dependencies?) ----> queued ------------------------> running (a slot holds it)
//!        |                  ^  ^                              |  |  |
//!        v   all completed  |  |  release, sweep (in front)   |  |  | complete, fail, cancel, sweep
//!      waiting -------------+  +------------------------------+  |  v
//!        ^                  ^      wait for children             |  completed | failed | cancelled
//!        +------------------|------------------------------------+
//!                           +-- children ended (in front)
//! ```
//!
//! What holds, at every instant and whatever dies (each has a test in `tests/`, and all are rows that the view
//! `invariant_violation` would show):
//!
//! - as many tasks run as there are open slots, never more;
//! - a spawn that was answered is never lost: its task reaches exactly one terminal state, and then never changes;
//! - a worker without the lease writes nothing: every write of a worker locks its slot row by lease first;
//! - what a task waits for is decided from rows under its session's lock, so no wake-up is lost;
//! - first in, first out per pool and priority, in the order of entry into the queue.
//!
//! A caller outside uses [`Store`]. A worker registers as a [`Worker`], claims [`Lease`]s, and writes through them; what
//! ends an attempt consumes the lease and becomes an [`Ending`], which can be written again until the database answers.

mod agents;
mod archive;
mod batch;
mod bench;
mod calls;
mod cancel;
mod cap;
mod checkpoint;
mod checkup;
mod children;
mod claim;
mod collect;
mod delegate;
mod delegate_together;
mod delegate_unless_strict;
mod deliver;
mod deliveries;
mod descend;
mod draft;
mod end;
mod end_and_claim;
mod ended_tasks;
mod error;
mod event_notifier;
mod events;
mod fleet;
mod gate;
mod history;
mod idempotency;
mod invariants;
mod keys;
mod lease;
mod listen;
mod look;
mod notice;
mod preflight;
mod quota;
mod read_result;
mod record;
mod release;
mod renew;
mod schema;
mod session;
mod session_webhook;
mod sessions;
mod shared_context;
mod spawn;
mod started;
mod stats;
mod status;
mod store;
mod sweep;
mod tally;
mod task_turns;
mod tenant;
mod text;
mod tidy;
mod together;
mod tool_result;
mod tools;
mod turns;
mod wait;
mod wait_for_ends;
mod webhook_secrets;
mod worker;

pub use adjutant_agent::{OnWorkerLoss, TaskView, moment};
pub use agents::{Agent, Redefinition};
pub use bench::{Bare, EndedAttempt, Insert};
pub use cancel::{Cancelled, CancelledTask};
pub use cap::Slots;
pub use checkup::Checkup;
pub use claim::{Assignment, Claim};
pub use collect::Collected;
pub use delegate::{NewDelegation, Operator};
pub use delegate_unless_strict::Delegated;
pub use deliver::{Delivery, EndedTask, Seen};
pub use deliveries::{DeliveryFilter, DeliveryRecord};
pub use draft::Draft;
pub use end::{Ending, Unwritten};
pub use end_and_claim::EndAndClaim;
pub use ended_tasks::LoggedEnd;
pub use error::Error;
pub use event_notifier::{LiveText, TextOf, Watching};
pub use events::{
    Event, EventPage, EventQuery, EventTexts, StoredAnswer, TaskPlace, TextRef, UsedTool,
};
pub use fleet::{Fleet, PoolStanding};
pub use history::{Cursor, Page, TaskEntry, TaskFilter};
pub use idempotency::IdempotencyKey;
pub use invariants::Violation;
pub use keys::{ApiKey, NewKey};
pub use lease::Lease;
pub use listen::{Listener, News};
pub use look::Look;
pub use notice::NotifyTarget;
pub use preflight::{Account, Preflight};
pub use quota::{QUOTA_EXCEEDED, Quota};
pub use read_result::ResultPage;
pub use record::{AttemptRecord, TaskRecord};
pub use renew::Renewal;
pub use schema::{Migrated, SchemaMisfit};
pub use session::{NewSession, Session, SessionChange};
pub use session_webhook::SessionWebhook;
pub use sessions::{SessionDetails, SessionEntry};
pub use spawn::{Dependency, NewTask, Spawned, TaskContext};
pub use started::Begun;
pub use stats::{QueueStats, SlotStats, Stats, Sums};
pub use status::SessionTasks;
pub use store::{Connections, Store};
pub use sweep::Swept;
pub use tally::Tally;
pub use task_turns::{CallRecord, ResultRecord, TurnPage, TurnRecord};
pub use tenant::{TenantLimits, TenantUsage};
pub use wait::Await;
pub use wait_for_ends::{Check, EndWait, EndedTasks, NotificationWait};
pub use webhook_secrets::{SecretFrom, WebhookSecret};
pub use worker::{NewWorker, Worker};

pub type Result<T> = std::result::Result<T, Error>;
