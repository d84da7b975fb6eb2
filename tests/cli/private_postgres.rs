//! The private PostgreSQL: the real binary, a real server, and no leftovers.

pub mod leftovers;
pub mod lifetime;
pub mod places;
pub mod servers;
pub mod users;
