//! A fleet of worker processes and everything that can go wrong around it: processes that die or
//! freeze, a database that goes away or fills up, connections that break or hang, wrong clocks,
//! lost notifications. Whatever happens, no task is lost, none ends twice, and the cap holds at
//! every sample.

mod bad_day_table;
pub mod bad_days;
pub mod caps;
pub mod clocks;
pub mod connections;
pub mod database;
pub mod deaths;
pub mod deletions;
pub mod drains;
pub mod freezes;
pub mod handlers;
pub mod locks;
pub mod notices;
pub mod shim;
pub mod snapshots;
pub mod verdict;
