//! What happens is told to whoever watches: all of it, in order, once, and soon.

pub mod front;
mod history;
mod hub;
mod streams;
mod text;
