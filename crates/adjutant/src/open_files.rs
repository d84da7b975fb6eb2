//! The limit of open files. Every agent loop holds a connection to its model, and the usual default
//! of 1024 is too low.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit to the maximum that the system allows.
pub fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) =
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
    {
        let now = limit.current.map_or_else(|| "any number of".to_owned(), |most| most.to_string());
        tracing::warn!("cannot raise the limit of {now} open files: {error}");
    }
}
