//! Adjutant's front door: HTTP, events, and the dialects in which orchestrators speak to it.
//!
//! A request comes in at the door (routes), is read strictly, belongs to a caller (tenant and scopes), and is answered by the
//! desk, which knows nothing of HTTP: the same calls come over MCP. The server is stateless: any number of them share one
//! database, and a client that loses one goes on at another.

mod auth;
mod body;
mod caliban;
mod caller;
mod desk;
mod dialect;
mod door;
mod ecs;
mod error;
mod hub;
mod key;
mod note;
mod rates;
mod sessions;
mod spec;
mod tool_call;
mod vigil;
mod weakincentives;
mod xzatoma;

pub use caller::{Caller, Scope};
pub use desk::{Desk, Dialects, Policy, SessionLimits};
pub use dialect::Dialect;
pub use door::{Door, DoorSettings, EventStreams, StreamLimits, event_routes};
pub use error::Error;
pub use hub::{Hub, Subscription, TextWatch, Watch};
pub use tool_call::ToolCall;

pub type Result<T, E = Error> = std::result::Result<T, E>;
