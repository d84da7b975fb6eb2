//! The dialect of seed 002, row by row, over HTTP: the id of the contract's row is at the start of each test's name.

mod examples;
mod launches;
mod mcp;
pub mod place;
mod restarts;
mod results;
mod waits;
