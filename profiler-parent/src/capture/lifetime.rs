//! When a process has lived, as far as the session knows, and the marker that shows why it is not
//! complete.
//!
//! Used by both formats of a capture, and by recovery, which knows less.

use profiler_core::time::Timestamp;
use profiler_gecko::gecko::IncompleteProcess;

use super::CapturedProcess;
use crate::gather::verdict::Why;

/// When a process has lived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lifetime {
    /// When the session learned of it.
    pub(crate) began: Option<Timestamp>,
    /// When it ended; `None` if it runs, or if that is not known.
    pub(crate) ended: Option<Timestamp>,
}

/// The marker of a process that is not complete. It lasts from the end of the process, or from the
/// capture. For a process that another session records, it lasts as long as the process has lived.
/// For a process that does not record, it is where the session has learned of it.
pub(crate) fn incomplete(process: &CapturedProcess, capture: Timestamp) -> IncompleteProcess {
    let Lifetime { began, ended } = process.lived;
    let (since, until) = match process.verdict.why() {
        Some(Why::RecordedElsewhere { .. }) => (began, ended),
        Some(Why::Unprofiled { .. }) if began.is_some() => (began, began),
        _ => (ended, None),
    };
    IncompleteProcess {
        pid: process.pid,
        name: process.name.clone(),
        since: since.unwrap_or(capture),
        until,
        verdict: process.verdict.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use profiler_core::ids::ProcessId;
    use profiler_core::session::EntryCounts;

    use super::*;
    use crate::gather::verdict::Verdict;

    fn marker(why: Why, ended: Option<u64>) -> (u64, Option<u64>) {
        let process = CapturedProcess {
            name: "worker".to_owned(),
            pid: ProcessId::new(7),
            parent: None,
            threads: 0,
            counts: EntryCounts::default(),
            verdict: Verdict::Missing { why },
            writing: Duration::ZERO,
            lived: Lifetime {
                began: Some(Timestamp::from_raw(10)),
                ended: ended.map(Timestamp::from_raw),
            },
            time: None,
            series: None,
        };
        let marker = incomplete(&process, Timestamp::from_raw(99));
        (marker.since.raw(), marker.until.map(Timestamp::raw))
    }

    #[test]
    fn the_marker_of_a_process_of_another_session_lasts_as_long_as_the_process() {
        let elsewhere = || Why::RecordedElsewhere { session: 3 };
        assert_eq!(marker(elsewhere(), Some(20)), (10, Some(20)));
        assert_eq!(marker(elsewhere(), None), (10, None));
    }

    #[test]
    fn the_marker_of_a_process_that_does_not_record_is_where_it_was_found() {
        let unprofiled = Why::Unprofiled {
            message: "it is static".to_owned(),
        };
        assert_eq!(marker(unprofiled, Some(20)), (10, Some(10)));
    }

    #[test]
    fn another_marker_lasts_from_the_end_of_the_process_or_from_the_capture() {
        assert_eq!(marker(Why::Gone, Some(20)), (20, None));
        assert_eq!(marker(Why::Running, None), (99, None));
    }
}
