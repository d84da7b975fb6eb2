//! The resident memory of another process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use tokio_util::task::AbortOnDropHandle;

const EVERY: Duration = Duration::from_millis(50);

/// Watches how much a process takes, until this is dropped.
pub struct Peak {
    kib: Arc<AtomicU64>,
    _watching: AbortOnDropHandle<()>,
}

impl Peak {
    pub fn watch(pid: u32) -> anyhow::Result<Self> {
        let kib = Arc::new(AtomicU64::new(resident_kib(pid)?));
        let peak = kib.clone();
        let watching = tokio::spawn(async move {
            while let Ok(now) = resident_kib(pid) {
                peak.fetch_max(now, Ordering::Relaxed);
                tokio::time::sleep(EVERY).await;
            }
        });
        Ok(Self { kib, _watching: AbortOnDropHandle::new(watching) })
    }

    /// The most that it took while it was watched.
    pub fn kib(&self) -> u64 {
        self.kib.load(Ordering::Relaxed)
    }
}

pub fn resident_kib(pid: u32) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/status");
    let status = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {path}, which says how much memory it takes"))?;
    let kib = status.lines().find_map(|line| {
        line.strip_prefix("VmRSS:")?.trim().strip_suffix("kB")?.trim().parse().ok()
    });
    kib.with_context(|| format!("{path} does not say how much is resident"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_takes_is_seen() {
        let before = resident_kib(std::process::id()).unwrap();
        let taken = vec![1u8; 64 << 20];
        let after = resident_kib(std::process::id()).unwrap();
        assert!(
            after - before > 32 << 10,
            "{before} KiB, then {after} KiB with {} bytes more",
            taken.len()
        );
    }
}
