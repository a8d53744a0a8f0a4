//! Which markers an observer wants.
//!
//! A filter is plain data, so that it can come from a command line or a page. Every part that is set must hold.

use serde::{Deserialize, Serialize};

use super::event::{ObservedMarker, Origin, SharedText};

/// The group that reaches every observer of a group.
pub const ALL_GROUPS: &str = "*";

/// Which markers an observer wants; by default all. Patterns may have `*` (any text) and `?` (any character).
///
/// ```
/// use std::time::Duration;
/// use profiler_parent::observe::Filter;
///
/// let slow_requests = Filter::default().name("request *").min_duration(Duration::from_millis(50));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Filter {
    /// Pattern of the process's name, or its number.
    pub process: Option<String>,
    /// Pattern of the thread's name, or its number.
    pub thread: Option<String>,
    /// Name of a group: what belongs to it, or to all groups. What belongs to none is not wanted then.
    pub group: Option<String>,
    /// Name of the category.
    pub category: Option<String>,
    /// Pattern of the marker's name.
    pub name: Option<String>,
    /// Nanoseconds that it takes at least. Points take none.
    pub min_duration_ns: u64,
}

impl Filter {
    /// Processes whose name matches, or with this number.
    #[must_use]
    pub fn process(mut self, pattern: impl Into<String>) -> Self {
        self.process = Some(pattern.into());
        self
    }

    /// Threads whose name matches, or with this number.
    #[must_use]
    pub fn thread(mut self, pattern: impl Into<String>) -> Self {
        self.thread = Some(pattern.into());
        self
    }

    /// What belongs to this group; see [`SpanOptions::group`](profiler_core::marker::SpanOptions::group). A field
    /// with the key `group` puts its marker into a group too. These groups are names in the timeline: a group of
    /// [`groups`](profiler_core::groups) that is entered is none of them, however it is called. For both: a span with the
    /// same name beside the guard.
    #[must_use]
    pub fn group(mut self, name: impl Into<String>) -> Self {
        self.group = Some(name.into());
        self
    }

    /// This category.
    #[must_use]
    pub fn category(mut self, name: impl Into<String>) -> Self {
        self.category = Some(name.into());
        self
    }

    /// Markers whose name matches.
    #[must_use]
    pub fn name(mut self, pattern: impl Into<String>) -> Self {
        self.name = Some(pattern.into());
        self
    }

    /// What takes at least this long.
    #[must_use]
    pub fn min_duration(mut self, duration: std::time::Duration) -> Self {
        self.min_duration_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self
    }

    /// Whether it wants this.
    pub(super) fn wants(&self, one: &Head<'_>) -> bool {
        one.duration_ns >= self.min_duration_ns
            && self.category.as_deref().is_none_or(|category| category == one.category)
            && self.name.as_deref().is_none_or(|pattern| matches(pattern, one.name))
            && self.wants_origin(one.origin)
            && self.group.as_deref().is_none_or(|group| belongs(group, one.groups))
    }

    fn wants_origin(&self, origin: &Origin) -> bool {
        let (process, thread) = (u64::from(origin.process.get()), origin.thread.get());
        let wants = |wanted: &Option<String>, number, name: &str| {
            wanted.as_deref().is_none_or(|pattern| is_number(pattern, number) || matches(pattern, name))
        };
        wants(&self.process, process, &origin.process_name)
            && wants(&self.thread, thread, &origin.thread_name)
    }
}

fn is_number(pattern: &str, number: u64) -> bool {
    pattern.parse() == Ok(number)
}

fn belongs(group: &str, groups: &[SharedText]) -> bool {
    groups.iter().any(|one| **one == *group || **one == *ALL_GROUPS)
}

/// What a filter looks at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head<'a> {
    pub(super) origin: &'a Origin,
    pub(super) name: &'a str,
    pub(super) category: &'a str,
    pub(super) groups: &'a [SharedText],
    pub(super) duration_ns: u64,
}

impl<'a> Head<'a> {
    /// Of a marker that took `duration_ns`, or has been running for that time.
    pub(super) fn of(marker: &'a ObservedMarker, duration_ns: u64) -> Self {
        let ObservedMarker { origin, name, category, groups, .. } = marker;
        Self { origin, name, category, groups, duration_ns }
    }
}

/// Whether a text is of this pattern. Takes at most the product of both lengths.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut from) = (0, 0);
    // After the last star: where the pattern goes on, and up to where the star reaches.
    let mut star: Option<(usize, usize)> = None;
    while from < text.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at + 1, from));
                at += 1;
            }
            Some(one) if *one == '?' || text.get(from) == Some(one) => (at, from) = (at + 1, from + 1),
            _ => {
                let Some((after, reached)) = star else { return false };
                star = Some((after, reached + 1));
                (at, from) = (after, reached + 1);
            }
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use profiler_core::ids::{ProcessId, ThreadId};
    use proptest::prelude::*;

    use super::*;

    fn origin() -> Origin {
        let (process, thread) = (ProcessId::new(7), ThreadId::new(70));
        Origin { process, process_name: "worker-1".into(), thread, thread_name: "main".into() }
    }

    fn wants(filter: &Filter, groups: &[SharedText], duration_ns: u64) -> bool {
        let origin = origin();
        filter.wants(&Head { origin: &origin, name: "load", category: "I/O", groups, duration_ns })
    }

    #[test]
    fn every_part_that_is_set_must_hold() {
        let all = Filter::default();
        assert!(wants(&all, &[], 0));
        let full = all.process("worker-*").thread("70").category("I/O").name("lo?d");
        assert!(wants(&full, &[], 0));
        for other in [
            full.clone().process("8"),
            full.clone().thread("render*"),
            full.clone().category("IPC"),
            full.clone().name("load?"),
            full.clone().min_duration(std::time::Duration::from_nanos(11)),
        ] {
            assert!(!wants(&other, &[], 10), "{other:?}");
        }
    }

    #[test]
    fn t2_an_observer_of_a_group_sees_what_is_of_it_or_of_all_and_nothing_else() {
        let a = Filter::default().group("a");
        assert!(wants(&a, &["a".into()], 0) && wants(&a, &["b".into(), "a".into()], 0));
        assert!(wants(&a, &[ALL_GROUPS.into()], 0), "what is global reaches everybody");
        assert!(!wants(&a, &["b".into()], 0) && !wants(&a, &[], 0) && !wants(&a, &["".into()], 0));
    }

    /// The pattern by trying everything.
    fn naive(pattern: &[char], text: &[char]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, _) => text.is_empty(),
            (Some(('*', rest)), _) => (0..=text.len()).any(|skipped| naive(rest, &text[skipped..])),
            (Some((one, rest)), Some((letter, after))) => {
                (*one == '?' || one == letter) && naive(rest, after)
            }
            (Some(_), None) => false,
        }
    }

    proptest! {
        #[test]
        fn a_pattern_matches_what_trying_everything_matches(pattern in "[ab?*]{0,8}", text in "[ab]{0,8}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            prop_assert_eq!(matches(&pattern, &text), naive(&chars(&pattern), &chars(&text)));
        }
    }
}
