//! One module per command.

pub mod agents;
pub mod bench;
pub mod cancel;
pub mod collect;
pub mod completions;
pub mod config;
pub mod context;
mod database;
pub mod demo;
pub mod doctor;
// With the keys of the store (branch `history`): pub mod keys; Command::Keys in cli.rs and main.rs.
pub mod limits;
pub mod migrate;
pub mod postgres;
mod reach;
pub mod read;
pub mod script_model;
pub mod sessions;
pub mod spawn;
pub mod status;
pub mod tasks;
mod tell;
pub mod up;
pub mod wait;
mod waiting;
pub mod watch;
pub mod work;
