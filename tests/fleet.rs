//! A fleet of real workers, and everything that can go wrong around it: processes that die or stand still, a database that
//! goes away or is full, connections that break or fall silent, clocks that are wrong, notices that are lost. Whatever
//! happens, nothing is lost, nothing ends twice, and the cap holds at every look.

mod caps;
mod clocks;
mod connections;
mod database;
mod deaths;
mod drains;
mod freezes;
mod handlers;
pub mod load;
mod notices;
pub mod process;
pub mod proxy;
pub mod server;
mod shim;
mod verdict;
