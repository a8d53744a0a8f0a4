//! What the system tells about a process.
//!
//! Made by `process_connector`, used by `event_looks`.

/// An event about a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code))] // other systems send none
pub(super) enum ConnectorEvent {
    /// The process was forked.
    Forked(u32),
    /// The process has executed a program.
    Executed(u32),
}
