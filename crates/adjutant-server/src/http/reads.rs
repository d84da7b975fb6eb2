//! Requests that read history and sums: they have connections of their own, and each tenant may
//! make a few of them at a time, so that slow ones delay no spawn, status or collect.

use std::ops::Deref;
use std::time::Duration;

use adjutant_store::Store;

use crate::tenant_counter::{Permit, TenantCounter};
use crate::{Caller, Error, Result};

/// When a client that was refused should try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The reads of a process that are under way.
#[derive(Debug)]
pub(crate) struct Reads {
    store: Store,
    open: TenantCounter,
}

impl Reads {
    pub(super) fn new(store: &Store, max_per_tenant: usize) -> Self {
        Self { store: store.for_reads(), open: TenantCounter::new(max_per_tenant) }
    }

    /// The store, for one read of this caller; refused if its tenant has too many under way.
    pub(super) fn begin(&self, caller: &Caller) -> Result<Read<'_>> {
        let permit = self.open.take(&caller.tenant);
        let permit =
            permit.map_err(|exceeded| Error::too_many("reads under way", exceeded, RETRY_AFTER))?;
        Ok(Read { store: &self.store, _permit: permit })
    }

    /// The store, for reads of the operator.
    pub(super) fn of_operator(&self) -> &Store {
        &self.store
    }
}

/// The right to one read, until it is dropped.
#[derive(Debug)]
pub(super) struct Read<'a> {
    store: &'a Store,
    _permit: Permit,
}

impl Deref for Read<'_> {
    type Target = Store;

    fn deref(&self) -> &Store {
        self.store
    }
}
