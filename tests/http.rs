//! `adjutant serve` as its clients meet it.

mod bodies;
pub mod client;
mod doors;
mod drains;
mod failover;
mod history;
mod keys;
mod limits;
mod operations;
mod outages;
pub mod server;
mod sessions;
mod tools;
