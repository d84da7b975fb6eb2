//! The resident memory of another process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use tokio_util::task::AbortOnDropHandle;

const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);

/// Samples the resident memory of a process until it is dropped.
pub struct PeakMemory {
    kib: Arc<AtomicU64>,
    _sampling: AbortOnDropHandle<()>,
}

impl PeakMemory {
    pub fn watch(pid: u32) -> anyhow::Result<Self> {
        let kib = Arc::new(AtomicU64::new(resident_kib(pid)?));
        let peak = kib.clone();
        let sampling = tokio::spawn(async move {
            while let Ok(now) = resident_kib(pid) {
                peak.fetch_max(now, Ordering::Relaxed);
                tokio::time::sleep(SAMPLE_INTERVAL).await;
            }
        });
        Ok(Self { kib, _sampling: AbortOnDropHandle::new(sampling) })
    }

    /// The highest sample.
    pub fn kib(&self) -> u64 {
        self.kib.load(Ordering::Relaxed)
    }
}

pub fn resident_kib(pid: u32) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/status");
    let status = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {path} (`adjutant bench` needs Linux)"))?;
    let kib = status.lines().find_map(|line| {
        line.strip_prefix("VmRSS:")?.trim().strip_suffix("kB")?.trim().parse().ok()
    });
    kib.with_context(|| format!("{path} has no line VmRSS"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocated_memory_is_counted() {
        let before = resident_kib(std::process::id()).unwrap();
        let taken = vec![1u8; 64 << 20];
        let after = resident_kib(std::process::id()).unwrap();
        assert!(
            after - before > 32 << 10,
            "{before} KiB, then {after} KiB after allocating {} bytes",
            taken.len()
        );
    }
}
