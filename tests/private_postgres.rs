//! The private PostgreSQL, seen from outside: the real binary, a real server, and what is left after each end.

#[path = "private_postgres/leftovers.rs"]
mod leftovers;
#[path = "private_postgres/lifetime.rs"]
mod lifetime;
#[path = "private_postgres/places.rs"]
mod places;
#[path = "private_postgres/process.rs"]
mod process;
#[path = "private_postgres/servers.rs"]
mod servers;
#[path = "private_postgres/users.rs"]
mod users;
