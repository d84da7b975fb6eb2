//! Requests that read history and sums: they have connections of their own, and each tenant may
//! make a few of them at a time, so that slow ones delay no spawn, status or collect.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use adjutant_store::Store;

use crate::{Caller, Error, Result};

/// When a client that was refused should try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The reads of a process that are under way.
#[derive(Debug)]
pub(crate) struct Reads {
    store: Store,
    max_per_tenant: usize,
    open: Mutex<HashMap<String, usize>>,
}

impl Reads {
    pub(super) fn new(store: &Store, max_per_tenant: usize) -> Self {
        Self { store: store.for_reads(), max_per_tenant, open: Mutex::default() }
    }

    /// The store, for one read of this caller; refused if its tenant has too many under way.
    pub(super) fn begin(&self, caller: &Caller) -> Result<Read<'_>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let own = open.entry(caller.tenant.clone()).or_default();
        if *own >= self.max_per_tenant {
            return Err(Error::RateLimited(RETRY_AFTER));
        }
        *own += 1;
        Ok(Read { reads: self, tenant: caller.tenant.clone() })
    }

    /// The store, for reads of the operator.
    pub(super) fn of_operator(&self) -> &Store {
        &self.store
    }
}

/// The right to one read, until it is dropped.
#[derive(Debug)]
pub(super) struct Read<'a> {
    reads: &'a Reads,
    tenant: String,
}

impl Deref for Read<'_> {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.reads.store
    }
}

impl Drop for Read<'_> {
    fn drop(&mut self) {
        let mut open = self.reads.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = open.get_mut(&self.tenant) {
            *own -= 1;
            if *own == 0 {
                open.remove(&self.tenant);
            }
        }
    }
}
