//! The server: HTTP, MCP, event streams and the dashboard.
//!
//! A request is parsed strictly and belongs to a caller, that is a tenant and scopes. Tool calls
//! over HTTP and over MCP are answered by the [`ToolService`], which knows nothing of either.
//! Servers are stateless: any number of them share one database, and a client that loses one
//! continues at another.

mod auth;
mod call_log;
mod caller;
mod client_address;
mod error;
mod fold;
mod http;
mod hub;
mod rate_limit;
mod service;
mod session_cache;
mod strict_json;
mod tenant_counter;

pub use adjutant_dialects::{Dialect, DialectSettings, Policy, SessionLimits, ToolCall};
pub use caller::{Caller, CallerKey, Scope};
pub use client_address::Network;
pub use error::Error;
pub use http::{EventStreams, HttpServer, HttpSettings, StreamLimits, event_routes};
pub use hub::{Hub, Subscription, TextWatch, Watch};
pub use service::ToolService;

pub type Result<T, E = Error> = std::result::Result<T, E>;
