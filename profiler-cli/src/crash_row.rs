//! A crash that a process has recorded, as the first lines of `info`.
//!
//! Made by `profile` from the markers of a profile, and by `info` from the pool of a dead process.

use serde::Serialize;

use crate::plain::plain;

/// A crash of a process.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct CrashRow {
    pub(crate) process: String,
    pub(crate) pid: u64,
    /// The verdict on the process.
    pub(crate) verdict: String,
    /// The functions on the stack, the innermost first; none in a pool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) stack: Vec<String>,
}

impl CrashRow {
    /// The crash of a process with this verdict; `None` if it names none.
    pub(crate) fn of(process: &str, pid: u64, verdict: &str) -> Option<Self> {
        let crashed = verdict.split_once("crashed with signal ");
        let unknown = || verdict.split_once("unknown status, after ");
        let (_, rest) = crashed.or_else(unknown)?;
        // The text of a recorded crash has the name of its signal behind that of its thread.
        let is_recorded = rest.contains(": SIG") && !rest.contains(" panicked at ");
        is_recorded.then(|| Self {
            process: process.to_owned(),
            pid,
            verdict: verdict.to_owned(),
            stack: Vec::new(),
        })
    }

    /// The lines that show it.
    pub(crate) fn lines(&self) -> Vec<String> {
        let (process, verdict) = (plain(&self.process), plain(&self.verdict));
        let head = format!("{process} ({}) {verdict}", self.pid);
        let stack = self
            .stack
            .iter()
            .map(|frame| format!("    {}", plain(frame)));
        std::iter::once(head).chain(stack).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_recorded_crash_is_a_row() {
        let of = |verdict: &str| CrashRow::of("child", 7, verdict);
        let told = "recovered: crashed with signal 11 (SIGSEGV): worker: SIGSEGV: address not \
                    mapped, at 0x10";
        let mut row = of(told).unwrap();
        row.stack.push("fall".to_owned());
        assert_eq!(
            row.lines(),
            [format!("child (7) {told}"), "    fall".to_owned()]
        );
        assert!(
            of("recovered: ended, with unknown status, after main: SIGABRT: aborted").is_some()
        );
        assert!(of("recovered: crashed with signal 11 (SIGSEGV)").is_none());
        assert!(
            of("recovered: crashed with signal 6 (SIGABRT): main panicked at x.rs:1:1").is_none()
        );
        assert!(of("complete").is_none());
    }
}
