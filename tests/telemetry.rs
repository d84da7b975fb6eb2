//! What workers tell of themselves: traces to a collector, logs to standard error, and in neither what was said.

mod collector;
mod outages;
mod payloads;
mod stage;
mod traces;
