//! One file per command.

pub mod postgres;
