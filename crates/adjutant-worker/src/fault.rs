//! Named fault points, where a test kills or stops this process. They exist only in builds with
//! debug assertions.
//!
//! `ADJUTANT_FAULT=claimed:kill` kills the process right after its first claim;
//! `before_end:stop:3` stops it (SIGSTOP) right before it writes endings for the third time.

/// A named fault point.
#[cfg(not(debug_assertions))]
pub fn point(_: &'static str) {}

/// A named fault point.
#[cfg(debug_assertions)]
pub fn point(name: &'static str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    static FAULT: OnceLock<Option<(String, String, u32)>> = OnceLock::new();
    static PASSED: AtomicU32 = AtomicU32::new(0);
    let fault = FAULT.get_or_init(|| {
        let fault = std::env::var("ADJUTANT_FAULT").ok()?;
        let mut words = fault.split(':');
        let (point, action) = (words.next()?.to_owned(), words.next()?.to_owned());
        Some((point, action, words.next().and_then(|nth| nth.parse().ok()).unwrap_or(1)))
    });
    if let Some((point, action, nth)) = fault
        && point == name
        && PASSED.fetch_add(1, Ordering::SeqCst) + 1 == *nth
    {
        send_to_self(if action == "kill" { "KILL" } else { "STOP" });
    }
}

/// Kills this process with SIGKILL.
pub fn kill() {
    send_to_self("KILL");
}

fn send_to_self(signal: &str) {
    let script = format!("kill -{signal} {}", std::process::id());
    let sent = std::process::Command::new("sh").arg("-c").arg(script).status();
    if !sent.is_ok_and(|status| status.success()) {
        std::process::abort();
    }
}
