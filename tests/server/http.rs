//! The HTTP routes of `adjutant serve`.

pub mod access;
pub mod audit;
pub mod bodies;
pub mod bulk;
pub mod connections;
pub mod dashboard;
pub mod drains;
pub mod failover;
pub mod grants;
pub mod history;
pub mod keys;
pub mod limits;
pub mod open_keys;
pub mod operations;
pub mod outages;
pub mod session_parents;
pub mod sessions;
pub mod text_limits;
pub mod tools;
pub mod waits;
