//! Selects the markers that an observer receives.
//!
//! A filter is plain data: a command line or a page can produce it. A marker must match every part
//! that is set.

use serde::{Deserialize, Serialize};

use super::event::{ObservedMarker, Origin, SharedText};

/// The group name that matches the filters of all groups.
pub const ALL_GROUPS: &str = "*";

/// Selects markers for an observer; by default all. In patterns, `*` matches any text and `?` any
/// character.
///
/// Not to be confused with [`SessionBuilder::filter`](crate::SessionBuilder::filter), which decides
/// which threads are recorded at all. An observer receives nothing of a thread that is not
/// recorded.
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
    /// Pattern of the process name, or the process id.
    pub process: Option<String>,
    /// Pattern of the thread name, or the thread id.
    pub thread: Option<String>,
    /// Name of a group. Selects markers of this group or of all groups; markers without a group do
    /// not match.
    pub group: Option<String>,
    /// Name of the category.
    pub category: Option<String>,
    /// Pattern of the marker's name.
    pub name: Option<String>,
    /// Minimum duration in nanoseconds. Instants have a duration of 0.
    pub min_duration_ns: u64,
}

impl Filter {
    /// Selects processes whose name matches, or with this id.
    #[must_use]
    pub fn process(mut self, pattern: impl Into<String>) -> Self {
        self.process = Some(pattern.into());
        self
    }

    /// Selects threads whose name matches, or with this id.
    #[must_use]
    pub fn thread(mut self, pattern: impl Into<String>) -> Self {
        self.thread = Some(pattern.into());
        self
    }

    /// Selects markers of this group; see
    /// [`SpanOptions::group`](profiler_core::marker::SpanOptions::group). A field with the key
    /// `group` also assigns its marker to a group. These groups are names in the timeline: entering
    /// a group of [`groups`](profiler_core::groups) does not assign markers to a group of the same
    /// name. To have both, open a span with the same name beside the guard.
    #[must_use]
    pub fn group(mut self, name: impl Into<String>) -> Self {
        self.group = Some(name.into());
        self
    }

    /// Selects this category.
    #[must_use]
    pub fn category(mut self, name: impl Into<String>) -> Self {
        self.category = Some(name.into());
        self
    }

    /// Selects markers whose name matches.
    #[must_use]
    pub fn name(mut self, pattern: impl Into<String>) -> Self {
        self.name = Some(pattern.into());
        self
    }

    /// Selects markers with at least this duration.
    #[must_use]
    pub fn min_duration(mut self, duration: std::time::Duration) -> Self {
        self.min_duration_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self
    }

    /// Whether the filter selects this marker.
    pub(super) fn wants(&self, one: &Head<'_>) -> bool {
        one.duration_ns >= self.min_duration_ns
            && self
                .category
                .as_deref()
                .is_none_or(|category| category == one.category)
            && self
                .name
                .as_deref()
                .is_none_or(|pattern| matches(pattern, one.name))
            && self.wants_origin(one.origin)
            && self
                .group
                .as_deref()
                .is_none_or(|group| belongs(group, one.groups))
    }

    fn wants_origin(&self, origin: &Origin) -> bool {
        let process = u64::from(origin.process.get());
        let thread = origin.thread.get();
        let wants = |wanted: &Option<String>, number, name: &str| {
            wanted
                .as_deref()
                .is_none_or(|pattern| is_number(pattern, number) || matches(pattern, name))
        };
        wants(&self.process, process, &origin.process_name)
            && wants(&self.thread, thread, &origin.thread_name)
    }
}

fn is_number(pattern: &str, number: u64) -> bool {
    pattern.parse() == Ok(number)
}

fn belongs(group: &str, groups: &[SharedText]) -> bool {
    groups
        .iter()
        .any(|name| **name == *group || **name == *ALL_GROUPS)
}

/// The parts of a marker that a filter checks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head<'a> {
    pub(super) origin: &'a Origin,
    pub(super) name: &'a str,
    pub(super) category: &'a str,
    pub(super) groups: &'a [SharedText],
    pub(super) duration_ns: u64,
}

impl<'a> Head<'a> {
    /// For a marker that took `duration_ns`, or has been running for that time.
    pub(super) fn of(marker: &'a ObservedMarker, duration_ns: u64) -> Self {
        let ObservedMarker {
            origin,
            name,
            category,
            groups,
            ..
        } = marker;
        Self {
            origin,
            name,
            category,
            groups,
            duration_ns,
        }
    }
}

/// Whether a text matches a pattern. Takes at most as many steps as the product of both lengths.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let mut at = 0;
    let mut from = 0;
    // The pattern position after the last star, and the text position up to which the star matches.
    let mut star: Option<(usize, usize)> = None;
    while from < text.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at + 1, from));
                at += 1;
            }
            Some(one) if *one == '?' || text.get(from) == Some(one) => {
                (at, from) = (at + 1, from + 1)
            }
            _ => {
                let Some((after, reached)) = star else {
                    return false;
                };
                star = Some((after, reached + 1));
                (at, from) = (after, reached + 1);
            }
        }
    }
    pattern
        .get(at..)
        .unwrap_or_default()
        .iter()
        .all(|letter| *letter == '*')
}

#[cfg(test)]
mod tests {
    use profiler_core::ids::{ProcessId, ThreadId};
    use proptest::prelude::*;

    use super::*;

    fn origin() -> Origin {
        let process = ProcessId::new(7);
        let thread = ThreadId::new(70);
        Origin {
            process,
            process_name: "worker-1".into(),
            thread,
            thread_name: "main".into(),
        }
    }

    fn wants(filter: &Filter, groups: &[SharedText], duration_ns: u64) -> bool {
        let origin = origin();
        filter.wants(&Head {
            origin: &origin,
            name: "load",
            category: "I/O",
            groups,
            duration_ns,
        })
    }

    #[test]
    fn every_part_that_is_set_must_hold() {
        let all = Filter::default();
        assert!(wants(&all, &[], 0));
        let full = all
            .process("worker-*")
            .thread("70")
            .category("I/O")
            .name("lo?d");
        assert!(wants(&full, &[], 0));
        for other in [
            full.clone().process("8"),
            full.clone().thread("render*"),
            full.clone().category("IPC"),
            full.clone().name("load?"),
            full.clone()
                .min_duration(std::time::Duration::from_nanos(11)),
        ] {
            assert!(!wants(&other, &[], 10), "{other:?}");
        }
    }

    #[test]
    fn t2_a_group_filter_selects_only_markers_of_this_group_or_of_all_groups() {
        let a = Filter::default().group("a");
        assert!(wants(&a, &["a".into()], 0) && wants(&a, &["b".into(), "a".into()], 0));
        assert!(
            wants(&a, &[ALL_GROUPS.into()], 0),
            "markers of all groups match every group filter"
        );
        assert!(!wants(&a, &["b".into()], 0) && !wants(&a, &[], 0) && !wants(&a, &["".into()], 0));
    }

    /// Matches a pattern by trying every possibility.
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
        fn matching_agrees_with_exhaustive_search(pattern in "[ab?*]{0,8}", text in "[ab]{0,8}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            prop_assert_eq!(matches(&pattern, &text), naive(&chars(&pattern), &chars(&text)));
        }
    }
}
