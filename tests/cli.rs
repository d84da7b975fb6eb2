//! The commands of `adjutant` as a person or a script runs them, and the private PostgreSQL that
//! they start.

pub mod audit;
pub mod bulk;
pub mod client_commands;
pub mod config;
pub mod config_check;
pub mod discovery;
pub mod doctor;
pub mod end_to_end;
pub mod operator_commands;
pub mod private_postgres;
pub mod publishing;
pub mod script_model;
pub mod terminal;
pub mod waits;
