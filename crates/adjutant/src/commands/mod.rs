//! One file per command.

pub mod bench;
pub mod completions;
pub mod config;
pub mod demo;
pub mod limits;
pub mod migrate;
pub mod postgres;
pub mod script_model;
pub mod serve;
pub mod up;
pub mod work;
