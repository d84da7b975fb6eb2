//! What happens is told to whoever watches: all of it, in order, once, and soon.

pub mod hub;
pub mod streams;
pub mod text;
