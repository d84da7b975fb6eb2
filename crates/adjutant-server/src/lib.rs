//! Adjutant's front door: HTTP, events, and the dialects in which orchestrators speak to it.
//!
//! A request comes in at the door (routes), is read strictly, belongs to a caller (tenant and scopes), and is answered by the
//! service, which knows nothing of HTTP: the same calls come over MCP. The server is stateless: any number of them share one
//! database, and a client that loses one goes on at another.

mod auth;
mod caller;
mod error;
mod http;
mod hub;
mod note;
mod rate_limit;
mod service;
mod sessions;
mod strict_json;

pub use adjutant_dialects::{Dialect, DialectSettings, Policy, SessionLimits, ToolCall};
pub use caller::{Caller, Scope};
pub use error::Error;
pub use http::{EventStreams, HttpServer, HttpSettings, StreamLimits, event_routes};
pub use hub::{Hub, Subscription, TextWatch, Watch};
pub use service::ToolService;

pub type Result<T, E = Error> = std::result::Result<T, E>;
