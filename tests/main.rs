//! One integration binary for everything that needs more than one crate.

mod model;
