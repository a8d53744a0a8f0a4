//! The kinds of groups, and the probes that measure them.
//!
//! Compiled with and without the feature `engine`. Applications use this module as
//! [`crate::groups`].

use std::fmt;

/// The kind of a group. Groups of the same kind are compared with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    all(feature = "engine", unix),
    derive(serde::Serialize, serde::Deserialize)
)]
#[cfg_attr(all(feature = "engine", unix), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum GroupKind {
    /// All work of the process, for any group. Implied.
    Process,
    /// All work of a thread, for any group. Implied; threads of the same name share it.
    Thread,
    /// A part of the program.
    Component,
    /// Foreign code that the program runs.
    Plugin,
    /// A person or organisation that work is done for.
    Tenant,
    /// A class of requests.
    Request,
    /// A kind of asynchronous task.
    Task,
    /// A wait: see [`crate::groups::blocking()`].
    Blocking,
    /// Any other kind, including kinds that only newer versions know.
    Other,
}

impl GroupKind {
    const ALL: [Self; 9] = [
        Self::Process,
        Self::Thread,
        Self::Component,
        Self::Plugin,
        Self::Tenant,
        Self::Request,
        Self::Task,
        Self::Blocking,
        Self::Other,
    ];

    /// Its name in a pool, and before the colon of [`crate::group!`].
    pub const fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Thread => "thread",
            Self::Component => "component",
            Self::Plugin => "plugin",
            Self::Tenant => "tenant",
            Self::Request => "request",
            Self::Task => "task",
            Self::Blocking => "blocking",
            Self::Other => "other",
        }
    }

    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Splits `plugin:foo` into kind and name. Without a known kind the whole text names a
    /// component.
    #[cfg_attr(not(all(feature = "engine", unix)), allow(dead_code))] // only the engine splits
    pub(crate) fn split(text: &str) -> (Self, &str) {
        let split = text
            .split_once(':')
            .and_then(|(kind, name)| Some((Self::from_name(kind)?, name)));
        split.unwrap_or((Self::Component, text))
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The measurements of groups, as a set of bits. Entries into groups are always counted; everything
/// else only on request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    all(feature = "engine", unix),
    derive(serde::Serialize, serde::Deserialize)
)]
#[cfg_attr(all(feature = "engine", unix), serde(transparent))]
pub struct Probes(u8);

impl Probes {
    /// Only entries are counted.
    pub const NONE: Self = Self(0);
    /// Durations of runs: wall time, buckets, histogram, peaks.
    pub const JANK: Self = Self(1 << 1);
    /// Processor time: the thread's clock is read twice per iteration, by a system call
    /// (`clock_gettime`).
    pub const CPU: Self = Self(1 << 2);
    /// Time spent inside [`crate::groups::blocking()`].
    pub const BLOCKING: Self = Self(1 << 3);
    /// Groups that are too fine to be always measured: see [`crate::groups::Group::fine`].
    pub const FINE: Self = Self(1 << 4);
    /// Everything.
    pub const ALL: Self = Self(Self::JANK.0 | Self::CPU.0 | Self::BLOCKING.0 | Self::FINE.0);

    /// The single probes with their names.
    pub const EACH: [(Self, &'static str); 4] = [
        (Self::JANK, "jank"),
        (Self::CPU, "cpu"),
        (Self::BLOCKING, "blocking"),
        (Self::FINE, "fine"),
    ];

    /// The set with these bits; unknown bits are left out.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & Self::ALL.0)
    }

    /// The bits.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The union of both sets.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The intersection of both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// This set without the members of `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether the set contains all of `other`.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any clock must be read.
    #[cfg_attr(not(all(feature = "engine", unix)), allow(dead_code))] // only the engine reads clocks
    pub(crate) const fn needs_time(self) -> bool {
        self.0 & (Self::JANK.0 | Self::CPU.0 | Self::BLOCKING.0) != 0
    }

    /// The names of its members.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::EACH
            .into_iter()
            .filter(move |(probe, _)| self.contains(*probe))
            .map(|(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_known_kind_before_a_colon_is_split_off() {
        assert_eq!(GroupKind::split("plugin:foo"), (GroupKind::Plugin, "foo"));
        assert_eq!(GroupKind::split("tenant:7:a"), (GroupKind::Tenant, "7:a"));
        assert_eq!(
            GroupKind::split("std::vec"),
            (GroupKind::Component, "std::vec")
        );
        assert!(
            GroupKind::ALL
                .iter()
                .all(|kind| GroupKind::from_name(kind.name()) == Some(*kind))
        );
    }

    #[test]
    fn probes_have_names_and_unknown_bits_are_ignored() {
        assert_eq!(
            Probes::JANK.with(Probes::FINE).names().collect::<Vec<_>>(),
            ["jank", "fine"]
        );
        assert_eq!(Probes::from_bits(0xff), Probes::ALL);
        assert!(!Probes::FINE.needs_time() && Probes::BLOCKING.needs_time());
    }
}
