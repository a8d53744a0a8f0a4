//! `profiler waits`: its lines, and the end of the path that it shows.

use profiler_analysis::{Timeline, critical_path, wait_report};

#[path = "../../../profiler-cli/src/waits/chosen.rs"]
mod chosen;
#[path = "../../../profiler-cli/src/waits/text.rs"]
mod text;

/// The number of waits that are shown.
const TOP: usize = 5;

/// The waits of all threads. Returns the number of lines.
pub(crate) fn report(timeline: &Timeline) -> usize {
    text::waits(&wait_report(timeline), TOP).len()
}

/// The critical path of the process or of the longest marker with a name. Returns the number of
/// lines.
pub(crate) fn path(timeline: &Timeline, wanted: Option<&str>) -> usize {
    chosen::end_of_path(timeline, wanted).map_or(0, |end| {
        text::path(&critical_path(timeline, end), TOP).len()
    })
}
