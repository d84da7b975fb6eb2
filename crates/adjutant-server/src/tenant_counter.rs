//! What the tenants of a process hold at a time: reads, streams, waits. Each kind has a counter
//! with a limit for each tenant, and maybe one for all of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts what each tenant holds of one kind. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct TenantCounter(Arc<Counter>);

#[derive(Debug)]
struct Counter {
    per_tenant: usize,
    total: usize,
    held: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    total: usize,
    by_tenant: HashMap<String, usize>,
}

/// The limit that one more would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exceeded {
    Tenant(usize),
    Total(usize),
}

impl TenantCounter {
    pub(crate) fn new(per_tenant: usize) -> Self {
        Self::with_total(per_tenant, usize::MAX)
    }

    pub(crate) fn with_total(per_tenant: usize, total: usize) -> Self {
        Self(Arc::new(Counter { per_tenant, total, held: Mutex::default() }))
    }

    /// One of this kind for a tenant, until the permit is dropped.
    pub(crate) fn take(&self, tenant: &str) -> Result<Permit, Exceeded> {
        let mut permit = self.none(tenant);
        permit.grow(1)?;
        Ok(permit)
    }

    /// A permit for nothing yet.
    pub(crate) fn none(&self, tenant: &str) -> Permit {
        Permit { counter: self.0.clone(), tenant: tenant.to_owned(), amount: 0 }
    }
}

impl Counter {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a tenant holds, until this is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    counter: Arc<Counter>,
    tenant: String,
    amount: usize,
}

impl Permit {
    pub(crate) fn tenant(&self) -> &str {
        &self.tenant
    }

    /// Adds to what is held; refused if that exceeds a limit.
    pub(crate) fn grow(&mut self, by: usize) -> Result<(), Exceeded> {
        let Counter { per_tenant, total, .. } = *self.counter;
        let mut held = self.counter.lock();
        let own = held.by_tenant.get(&self.tenant).copied().unwrap_or_default();
        if own.saturating_add(by) > per_tenant {
            return Err(Exceeded::Tenant(per_tenant));
        }
        if held.total.saturating_add(by) > total {
            return Err(Exceeded::Total(total));
        }
        held.total += by;
        held.by_tenant.insert(self.tenant.clone(), own + by);
        self.amount += by;
        Ok(())
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut held = self.counter.lock();
        held.total -= self.amount;
        if let Some(own) = held.by_tenant.get_mut(&self.tenant) {
            *own -= self.amount;
            if *own == 0 {
                held.by_tenant.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_holds_no_more_than_its_limit_and_all_no_more_than_the_total() {
        let counter = TenantCounter::with_total(2, 3);
        let (first, _second) = (counter.take("a").unwrap(), counter.take("a").unwrap());
        assert_eq!(counter.take("a").unwrap_err(), Exceeded::Tenant(2));
        let _third = counter.take("b").unwrap();
        assert_eq!(counter.take("b").unwrap_err(), Exceeded::Total(3));
        drop(first);
        let _fourth = counter.take("b").unwrap();
        assert_eq!(counter.take("c").unwrap_err(), Exceeded::Total(3));
    }

    #[test]
    fn a_permit_that_grew_gives_back_all_and_a_refused_one_nothing() {
        let counter = TenantCounter::new(10);
        let mut permit = counter.none("a");
        permit.grow(6).unwrap();
        permit.grow(4).unwrap();
        assert_eq!(permit.grow(1), Err(Exceeded::Tenant(10)));
        drop(permit);
        assert!(counter.0.lock().by_tenant.is_empty());
        assert_eq!(counter.0.lock().total, 0);
    }
}
