//! How many files this process may have open. Every loop has a connection to its model, and most systems start a program with
//! a limit of 1024 that it may raise by itself.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// As many as the system allows.
pub fn allow_all() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
    {
        let now = limit.current.map_or_else(|| "any number of".to_owned(), |most| most.to_string());
        tracing::warn!("this process may have {now} files open, and cannot have more: {error}");
    }
}
