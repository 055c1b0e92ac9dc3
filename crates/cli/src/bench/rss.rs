//! How much memory the process holds.

use std::fs;

/// Bytes of this process in memory, now and at most; `None` where the system does not tell.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rss {
    pub(super) now: Option<u64>,
    pub(super) peak: Option<u64>,
}

pub(super) fn read() -> Rss {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    Rss { now: find(&status, "VmRSS:"), peak: find(&status, "VmHWM:") }
}

fn find(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_the_system_are_read_as_bytes() {
        let status = "Name:\thapax\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(find(status, "VmRSS:"), Some(1024 * 1024));
        assert_eq!(find(status, "VmHWM:"), Some(2048 * 1024));
        assert_eq!(find(status, "VmSwap:"), None);
    }
}
