//! Traces and logs of workers, which contain no texts.

pub mod outages;
pub mod payloads;
pub mod traced_fleet;
pub mod traces;
