//! The names that the hosts, processes and flows of the inputs have in the merged profile.
//!
//! Pure. Invariants: no two hosts have the same name; in a profile of several hosts, a process is
//! `HOST:PID` and shown as `NAME (HOST)`; names depend only on the order of the hosts, so merging in
//! steps gives the same names.

use std::borrow::Cow;

/// Flow identifiers of at least this many hexadecimal digits are the same flow in all inputs: they
/// are drawn at random. Smaller numbers, and other texts, are counted by each program for itself.
const GLOBAL_FLOW_DIGITS: usize = 9;

/// The names of the hosts of one input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HostNames {
    /// Each host: its name in the input, which the input's processes have if it has several hosts,
    /// and its name now. Longer old names come first.
    names: Vec<(String, String)>,
    /// Whether the input is a merged profile of several hosts.
    is_merged: bool,
    /// Whether the merged profile has several hosts.
    is_told: bool,
}

impl HostNames {
    /// The names of an input whose hosts were called `old` and are called `new` now, in a profile
    /// of `hosts` hosts.
    pub(super) fn new(old: &[String], new: &[String], hosts: usize) -> Self {
        let mut names: Vec<_> = old.iter().cloned().zip(new.iter().cloned()).collect();
        names.sort_by_key(|(old, _)| std::cmp::Reverse(old.len()));
        Self {
            is_merged: names.len() > 1,
            is_told: hosts > 1,
            names,
        }
    }

    /// The only host of the input.
    pub(super) fn only(&self) -> Option<&str> {
        let (_, new) = self.names.first().filter(|_| !self.is_merged)?;
        self.is_told.then_some(new)
    }

    /// The new name of a host.
    pub(super) fn host<'t>(&'t self, old: &'t str) -> &'t str {
        let found = self.names.iter().find(|(known, _)| known == old);
        found.map_or(old, |(_, new)| new)
    }

    /// The id of a process.
    pub(super) fn process_id<'t>(&self, pid: &'t str) -> Cow<'t, str> {
        self.qualified(pid)
    }

    /// The shown name of a process.
    pub(super) fn process_name<'t>(&self, name: &'t str) -> Cow<'t, str> {
        if let Some(host) = self.only() {
            return format!("{name} ({host})").into();
        }
        let ending = |(old, new): &(String, String)| {
            let name = name.strip_suffix(&format!(" ({old})"))?;
            Some(format!("{name} ({new})").into())
        };
        let names = self.names.iter().filter(|_| self.is_merged);
        names.filter_map(ending).next().unwrap_or(name.into())
    }

    /// The identifier of a flow.
    pub(super) fn flow<'t>(&self, id: &'t str) -> Cow<'t, str> {
        match is_global(id) {
            true => id.into(),
            false => self.qualified(id),
        }
    }

    fn qualified<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if let Some(host) = self.only() {
            return format!("{host}:{text}").into();
        }
        let begins = |(old, new): &(String, String)| {
            let rest = text.strip_prefix(old.as_str())?.strip_prefix(':')?;
            Some(format!("{new}:{rest}").into())
        };
        let names = self.names.iter().filter(|_| self.is_merged);
        names.filter_map(begins).next().unwrap_or(text.into())
    }
}

fn is_global(flow: &str) -> bool {
    flow.len() >= GLOBAL_FLOW_DIGITS && flow.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Names for hosts that are called `names`: the second `NAME` is `NAME (2)`.
pub(super) fn unique(names: &[String]) -> Vec<String> {
    let mut unique: Vec<String> = Vec::with_capacity(names.len());
    for name in names {
        let mut candidates = (1..).map(|number| match number {
            1 => name.clone(),
            number => format!("{name} ({number})"),
        });
        unique.extend(candidates.find(|candidate| !unique.contains(candidate)));
    }
    unique
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts<const N: usize>(texts: [&str; N]) -> Vec<String> {
        texts.map(str::to_owned).to_vec()
    }

    #[test]
    fn processes_and_small_flows_of_two_hosts_have_different_ids() {
        let names = |host| HostNames::new(&texts([host]), &texts([host]), 2);
        let [one, other] = ["a", "b"].map(names);
        assert_eq!(one.process_id("12.1"), "a:12.1");
        assert_ne!(one.process_id("12"), other.process_id("12"));
        assert_eq!(one.process_name("worker"), "worker (a)");
        assert_ne!(one.flow("beef"), other.flow("beef"));
        assert_ne!(one.flow("a longer text"), other.flow("a longer text"));
        for names in [one, other] {
            assert_eq!(names.flow("ab0000000000012"), "ab0000000000012");
        }
    }

    #[test]
    fn one_host_alone_changes_no_name() {
        let alone = HostNames::new(&texts(["a"]), &texts(["a"]), 1);
        assert_eq!(alone.process_id("12"), "12");
        assert_eq!(alone.process_name("worker"), "worker");
        assert_eq!(alone.flow("beef"), "beef");
    }

    #[test]
    fn the_hosts_of_a_merged_input_are_renamed_in_all_ids() {
        let old = texts(["a", "a (2)"]);
        let names = HostNames::new(&old, &texts(["a (2)", "a (3)"]), 3);
        assert_eq!(names.process_id("a:1"), "a (2):1");
        assert_eq!(names.process_id("a (2):1"), "a (3):1");
        assert_eq!(names.process_name("w (a)"), "w (a (2))");
        assert_eq!(names.process_name("w (a (2))"), "w (a (3))");
        assert_eq!(names.flow("a:beef"), "a (2):beef");
        assert_eq!(names.host("a"), "a (2)");
    }

    #[test]
    fn hosts_with_the_same_name_are_numbered() {
        let names = unique(&texts(["a", "b", "a", "a (2)", "a"]));
        assert_eq!(names, ["a", "b", "a (2)", "a (2) (2)", "a (3)"]);
    }
}
