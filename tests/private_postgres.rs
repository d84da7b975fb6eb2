//! The private PostgreSQL, seen from outside: the real binary, a real server, and what is left after each end.

mod leftovers;
mod lifetime;
mod places;
pub mod process;
mod servers;
mod users;
