//! The samples that a request selects: by window, process, thread or group, and by time on or off
//! the processor; and the form of the answer.
//!
//! Invariant: parsing never fails. An invalid value is treated as missing.

use profiler_core::groups::GroupKind;
use profiler_core::ids::ThreadId;
use profiler_http::Query;

use crate::frames::FunctionId;
use crate::weights::Weight;
use crate::window::Window;

/// Default and largest numbers of nodes and rows in an answer.
const NODES: usize = 4000;
const MAX_NODES: usize = 20_000;
const ROWS: usize = 50;
const MAX_ROWS: usize = 10_000;
/// The longest path to a node.
const MAX_PATH: usize = 2048;

/// The kind of time that counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TimeKind {
    /// Time on the processor.
    #[default]
    OnCpu,
    /// Time in which a thread waited.
    OffCpu,
    /// Both.
    All,
}

impl TimeKind {
    const NAMES: [(&'static str, Self); 3] = [
        ("on-cpu", Self::OnCpu),
        ("off-cpu", Self::OffCpu),
        ("all", Self::All),
    ];

    fn named(name: &str) -> Self {
        let known = Self::NAMES.into_iter().find(|(known, _)| *known == name);
        known.map(|(_, kind)| kind).unwrap_or_default()
    }

    /// Its name in requests and answers.
    pub(crate) fn name(self) -> &'static str {
        let known = Self::NAMES.into_iter().find(|(_, kind)| *kind == self);
        known.map_or("", |(name, _)| name)
    }

    /// The time of this kind.
    pub(crate) const fn of(self, weight: Weight) -> u64 {
        match self {
            Self::OnCpu => weight.on_ns,
            Self::OffCpu => weight.off_ns,
            Self::All => weight.on_ns.saturating_add(weight.off_ns),
        }
    }
}

/// A group by kind and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WantedGroup {
    pub(crate) kind: GroupKind,
    pub(crate) name: String,
}

impl WantedGroup {
    /// Parses `kind:name`.
    fn parse(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once(':')?;
        let kind = GroupKind::from_name(kind)?;
        let name = name.to_owned();
        Some(Self { kind, name })
    }

    /// Whether the pools record which samples belong to the group. They do for the groups of
    /// processes and threads. Of all others, they record only when the longest runs took place.
    pub(crate) const fn is_recorded(&self) -> bool {
        matches!(self.kind, GroupKind::Process | GroupKind::Thread)
    }
}

/// The column by which functions are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FunctionColumn {
    #[default]
    OwnTime,
    Total,
    Change,
    Name,
}

impl FunctionColumn {
    const NAMES: [(&'static str, Self); 4] = [
        ("self", Self::OwnTime),
        ("total", Self::Total),
        ("change", Self::Change),
        ("name", Self::Name),
    ];

    fn named(name: &str) -> Self {
        let known = Self::NAMES.into_iter().find(|(known, _)| *known == name);
        known.map(|(_, column)| column).unwrap_or_default()
    }

    /// Its name in requests and answers.
    pub(crate) fn name(self) -> &'static str {
        let known = Self::NAMES.into_iter().find(|(_, column)| *column == self);
        known.map_or("", |(name, _)| name)
    }
}

/// A parsed request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    pub(crate) window: Window,
    pub(crate) time: TimeKind,
    /// The key of a process, as in the table of processes.
    pub(crate) process: Option<String>,
    pub(crate) thread: Option<ThreadId>,
    pub(crate) group: Option<WantedGroup>,
    pub(crate) is_inverted: bool,
    /// Whether the window before is compared.
    pub(crate) compares: bool,
    /// The functions from the root to the node that is shown.
    pub(crate) path: Vec<FunctionId>,
    /// A part of the names of functions, in lower case; empty for all.
    pub(crate) find: String,
    pub(crate) nodes: usize,
    pub(crate) rows: usize,
    pub(crate) sort: FunctionColumn,
    pub(crate) is_ascending: bool,
}

impl Selection {
    /// Parses a request.
    pub(crate) fn parse(query: &Query) -> Self {
        let is_set = |key: &str| query.get(key) == Some("1");
        let ids = query.get("path").unwrap_or_default().split('.');
        let path = ids.map_while(FunctionId::parse);
        let sort = FunctionColumn::named(query.get("sort").unwrap_or_default());
        Self {
            window: Window::named(query.get("window").unwrap_or_default()),
            time: TimeKind::named(query.get("time").unwrap_or_default()),
            process: query.text("process"),
            thread: query.number("thread").map(ThreadId::new),
            group: query.get("group").and_then(WantedGroup::parse),
            is_inverted: is_set("inverted"),
            compares: is_set("compare"),
            path: path.take(MAX_PATH).collect(),
            find: query.get("find").unwrap_or_default().to_lowercase(),
            nodes: query.rows("nodes", NODES).min(MAX_NODES),
            rows: query.rows("rows", ROWS).min(MAX_ROWS),
            sort,
            is_ascending: match query.get("order") {
                Some("asc") => true,
                Some("desc") => false,
                _ => sort == FunctionColumn::Name,
            },
        }
    }

    /// The group whose samples must be found by the time of its runs.
    pub(crate) fn runs_of(&self) -> Option<&WantedGroup> {
        self.group.as_ref().filter(|group| !group.is_recorded())
    }

    /// Whether samples of this thread are wanted.
    pub(crate) fn wants_thread(&self, tid: ThreadId, name: &str) -> bool {
        let is_group = self
            .group
            .as_ref()
            .is_none_or(|group| group.kind != GroupKind::Thread || group.name == name);
        is_group && self.thread.is_none_or(|wanted| wanted == tid)
    }

    /// Whether samples of this process are wanted.
    pub(crate) fn wants_process(&self, key: &str, name: &str) -> bool {
        let is_group = self
            .group
            .as_ref()
            .is_none_or(|group| group.kind != GroupKind::Process || group.name == name);
        is_group && self.process.as_deref().is_none_or(|wanted| wanted == key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_parsed_and_invalid_values_count_as_missing() {
        let parse = |text: &str| Selection::parse(&Query::parse(text));
        let all = parse(
            "window=60s&time=all&thread=7&group=tenant:a:b&inverted=1&path=3.f4&find=Ab&nodes=all",
        );
        assert_eq!((all.window, all.time), (Window::Minute, TimeKind::All));
        assert_eq!(all.thread, Some(ThreadId::new(7)));
        assert!(all.runs_of().is_some_and(|group| group.name == "a:b"));
        let path: Vec<_> = all.path.iter().map(|id| id.to_string()).collect();
        assert_eq!(path, ["0000000000000003", "00000000000000f4"]);
        assert_eq!((all.find.as_str(), all.nodes), ("ab", MAX_NODES));
        assert!(all.is_inverted && !all.compares);
        let wrong = parse("window=x&time=&thread=-1&group=nothing:a&path=x.2&nodes=-1&sort=?");
        assert_eq!(wrong, parse(""));
    }

    #[test]
    fn groups_of_processes_and_threads_select_by_name() {
        let of = |group: &str| Selection::parse(&Query::parse(&format!("group={group}")));
        let thread = of("thread:worker");
        assert!(thread.wants_thread(ThreadId::new(1), "worker") && thread.runs_of().is_none());
        assert!(!thread.wants_thread(ThreadId::new(1), "main") && thread.wants_process("", "x"));
        let process = of("process:x");
        assert!(process.wants_process("", "x") && !process.wants_process("", "y"));
    }
}
