//! The private PostgreSQL, seen from outside: the real binary, a real server, and what is left
//! after each end.

pub mod leftovers;
pub mod lifetime;
pub mod places;
pub mod servers;
pub mod users;
