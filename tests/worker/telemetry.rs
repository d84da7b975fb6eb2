//! What workers tell of themselves: traces to a collector, logs to standard error, and in neither
//! what was said.

pub mod outages;
pub mod payloads;
pub mod traced_fleet;
pub mod traces;
