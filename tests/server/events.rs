//! Event streams: every event once, in order and without delay.

pub mod hub;
pub mod streams;
pub mod text;
