//! The CPU time of other processes.

use std::time::Duration;

use anyhow::Context;

/// The unit of CPU times in /proc, the same on every supported architecture.
const TICKS_PER_SECOND: u32 = 100;

/// A process, and another one with its children.
#[derive(Debug, Clone, Copy)]
pub struct Processes {
    pub one: u32,
    pub parent: u32,
}

impl Processes {
    /// The CPU time so far of those processes that are still running.
    pub fn cpu(self) -> anyhow::Result<Duration> {
        let mut ticks = 0;
        for entry in std::fs::read_dir("/proc")
            .context("cannot read /proc (`adjutant bench api` needs Linux)")?
        {
            // The process may have exited since the directory was read.
            let Ok(stat) = std::fs::read_to_string(entry?.path().join("stat")) else { continue };
            if let Some(stat) = Stat::parse(&stat)
                && (stat.pid == self.one || stat.pid == self.parent || stat.parent == self.parent)
            {
                ticks += stat.ticks;
            }
        }
        Ok(Duration::from_secs(ticks) / TICKS_PER_SECOND)
    }
}

#[derive(Debug, PartialEq)]
struct Stat {
    pid: u32,
    parent: u32,
    ticks: u64,
}

impl Stat {
    /// The second field is a name in parentheses, which may contain spaces and parentheses itself.
    fn parse(line: &str) -> Option<Self> {
        let (pid, rest) = line.split_once(' ')?;
        let mut fields = rest.rsplit_once(')')?.1.split_ascii_whitespace();
        let parent = fields.nth(1)?.parse().ok()?;
        let user: u64 = fields.nth(9)?.parse().ok()?;
        let system: u64 = fields.next()?.parse().ok()?;
        Some(Self { pid: pid.parse().ok()?, parent, ticks: user + system })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_parsed_whatever_the_process_is_called() {
        let line = "77 (a (b) c) S 12 77 77 0 -1 4194304 100 0 0 0 250 31 5 6 20 0 1 0 1 2 3";
        assert_eq!(Stat::parse(line), Some(Stat { pid: 77, parent: 12, ticks: 281 }));
    }

    #[test]
    fn used_cpu_time_is_counted() {
        let me = Processes { one: std::process::id(), parent: std::process::id() };
        let before = me.cpu().unwrap();
        let mut sum = 0u64;
        while me.cpu().unwrap() == before {
            sum = std::hint::black_box((0..1_000_000u64).sum::<u64>() ^ sum);
        }
    }
}
