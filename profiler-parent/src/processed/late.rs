//! Which process shows that another one is not complete: the one that has started it.
//!
//! Used by the writer of the profile. If that process is not in the profile, the root shows it.

use profiler_core::ids::ProcessId;
use profiler_gecko::model::IncompleteProcess;

/// A process that is not complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LateProcess {
    /// The process that has started it, if that is known.
    pub(crate) parent: Option<ProcessId>,
    /// The marker that shows it.
    pub(crate) marker: IncompleteProcess,
}

/// The markers that the process at `place` shows. `members` are the process numbers of all, and
/// whether each is the root. Of several programs of a process, the last one shows them.
pub(super) fn shown_by(
    place: usize,
    members: &[(ProcessId, bool)],
    all: &[LateProcess],
) -> Vec<IncompleteProcess> {
    let root = members.iter().position(|(_, is_root)| *is_root);
    let starter = |late: &LateProcess| {
        let parent = late.parent?;
        members.iter().rposition(|(pid, _)| *pid == parent)
    };
    let shown = all
        .iter()
        .filter(|late| starter(late).or(root) == Some(place));
    shown.map(|late| late.marker.clone()).collect()
}

#[cfg(test)]
mod tests {
    use profiler_core::time::Timestamp;

    use super::*;

    #[test]
    fn the_process_that_has_started_it_shows_it_or_the_root() {
        let pid = ProcessId::new;
        let members = [(pid(1), true), (pid(2), false), (pid(2), false)];
        let late = |own: u32, parent: Option<u32>| LateProcess {
            parent: parent.map(pid),
            marker: IncompleteProcess {
                pid: pid(own),
                name: "worker".to_owned(),
                since: Timestamp::from_raw(1),
                until: None,
                verdict: "missing".to_owned(),
            },
        };
        let all = [late(5, Some(2)), late(6, Some(9)), late(7, None)];
        let shown = |place| -> Vec<u32> {
            let shown = shown_by(place, &members, &all);
            shown.iter().map(|marker| marker.pid.get()).collect()
        };
        assert_eq!(shown(0), [6, 7]);
        assert_eq!(shown(1), [] as [u32; 0]);
        assert_eq!(shown(2), [5]);
    }
}
