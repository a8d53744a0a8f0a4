//! The names that the hosts, processes and flows of the inputs have in the merged profile.
//!
//! Pure. Invariants: no two hosts have the same name; in a profile of several hosts, a process is
//! `HOST:PID`, shown as `NAME (HOST)`; names depend only on the order of the hosts, so merging in
//! steps gives the same names.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// Flow identifiers of at least this many hexadecimal digits, without zeros before them, are the
/// same flow in all inputs: they are drawn at random. Smaller numbers, and other texts, are counted
/// by each program for itself.
const GLOBAL_FLOW_DIGITS: usize = 9;

/// The most hosts of a merged profile. Each has a section in it, and every host is compared with
/// all earlier ones.
pub(super) const MAX_HOSTS: usize = 1_000;
/// The most bytes of a host's name, which is written for each process. No system has longer names.
const MAX_NAME: usize = 255;
/// The most bytes of a name with a number, such as `NAME (2)`.
const MAX_NUMBERED: usize = MAX_NAME + " (1000)".len();

/// What is wrong with the name of a host.
pub(super) fn check_name(name: &str) -> Result<(), &'static str> {
    check(name, MAX_NAME)
}

/// What is wrong with the name of a host in the ids of its processes.
pub(super) fn check_numbered_name(name: &str) -> Result<(), &'static str> {
    check(name, MAX_NUMBERED)
}

fn check(name: &str, most: usize) -> Result<(), &'static str> {
    match name {
        "" => Err("the name of a host is empty"),
        _ if name.len() > most => Err("the name of a host is longer than 255 bytes"),
        _ if name.contains(char::is_control) => Err("the name of a host has control characters"),
        _ => Ok(()),
    }
}

/// A text as the name of a host.
pub(super) fn host_name(text: &str) -> String {
    let printed = |letter: char| {
        if letter.is_control() {
            '\u{fffd}'
        } else {
            letter
        }
    };
    let mut name: String = text.chars().map(printed).collect();
    name.truncate(name.floor_char_boundary(MAX_NAME));
    name
}

/// The names of the hosts of one input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HostNames {
    /// The names now, by the names in the input, which the input's processes have if it has several
    /// hosts.
    names: HashMap<String, String>,
    /// The name of the only host of the input, if the merged profile has several.
    only: Option<String>,
    /// Whether the input is a merged profile of several hosts.
    is_merged: bool,
}

impl HostNames {
    /// The names of an input whose hosts were called `old` and are called `new` now, in a profile
    /// of `hosts` hosts.
    pub(super) fn new(old: &[String], new: &[String], hosts: usize) -> Self {
        let mut names = HashMap::new();
        for (old, new) in old.iter().zip(new) {
            names.entry(old.clone()).or_insert_with(|| new.clone());
        }
        let only = match new {
            [only] if hosts > 1 => Some(only.clone()),
            _ => None,
        };
        Self {
            names,
            only,
            is_merged: new.len() > 1,
        }
    }

    /// The only host of the input.
    pub(super) fn only(&self) -> Option<&str> {
        self.only.as_deref()
    }

    /// The new name of a host.
    pub(super) fn host<'t>(&'t self, old: &'t str) -> &'t str {
        self.names.get(old).map_or(old, String::as_str)
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
        self.renamed_ending(name).map_or(name.into(), Cow::Owned)
    }

    /// `NAME (NEW)` for `NAME (OLD)`, with the longest old name.
    fn renamed_ending(&self, name: &str) -> Option<String> {
        let whole = name.strip_suffix(')').filter(|_| self.is_merged)?;
        let mut places = whole.match_indices(" (");
        places.find_map(|(at, _)| {
            let (name, old) = (whole.get(..at)?, whole.get(at + 2..)?);
            let new = self.known(old)?;
            Some(format!("{name} ({new})"))
        })
    }

    /// The new name of a host, if there is one with this name.
    fn known(&self, old: &str) -> Option<&str> {
        let is_name = old.len() <= MAX_NUMBERED;
        is_name
            .then(|| self.names.get(old))
            .flatten()
            .map(String::as_str)
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
        self.renamed_beginning(text).map_or(text.into(), Cow::Owned)
    }

    /// `NEW:TEXT` for `OLD:TEXT`, with the longest old name.
    fn renamed_beginning(&self, text: &str) -> Option<String> {
        let places = text.match_indices(':').filter(|_| self.is_merged);
        let places = places.take_while(|(at, _)| *at <= MAX_NUMBERED);
        let found = places.filter_map(|(at, _)| {
            let new = self.known(text.get(..at)?)?;
            Some((new, text.get(at + 1..)?))
        });
        let (new, rest) = found.last()?;
        Some(format!("{new}:{rest}"))
    }
}

fn is_global(flow: &str) -> bool {
    let digits = flow.trim_start_matches('0');
    digits.len() >= GLOBAL_FLOW_DIGITS && flow.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Names for hosts that are called `names`: the second `NAME` is `NAME (2)`.
pub(super) fn unique(names: &[String]) -> Vec<String> {
    let mut unique = UniqueNames::default();
    names.iter().map(|name| unique.name(name)).collect()
}

/// Gives out names, each once: the second `NAME` is `NAME (2)`. The time for all of them grows with
/// their number.
#[derive(Debug, Default)]
pub(super) struct UniqueNames {
    taken: HashSet<String>,
    /// The number of the next `NAME (NUMBER)`: all smaller ones are taken.
    next: HashMap<String, u64>,
}

impl UniqueNames {
    /// A name that was not given out before.
    pub(super) fn name(&mut self, name: &str) -> String {
        let next = self.next.entry(name.to_owned()).or_insert(1);
        loop {
            let candidate = match *next {
                1 => name.to_owned(),
                number => format!("{name} ({number})"),
            };
            *next = next.saturating_add(1);
            if self.taken.insert(candidate.clone()) {
                return candidate;
            }
        }
    }
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
        for small in ["beef", "000000000000beef"] {
            assert_ne!(one.flow(small), other.flow(small));
        }
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

    #[test]
    fn a_hundred_thousand_equal_names_are_numbered() {
        let names = unique(&vec!["a".to_owned(); 100_000]);
        assert_eq!(names.last().map(String::as_str), Some("a (100000)"));
    }

    #[test]
    fn the_longest_name_that_fits_is_the_host() {
        let old = texts(["b", "a:b", "a", "w (a)"]);
        let new = texts(["1", "2", "3", "4"]);
        let names = HostNames::new(&old, &new, 4);
        assert_eq!(names.process_id("a:b:7"), "2:7");
        assert_eq!(names.process_id("a:c:7"), "3:c:7");
        assert_eq!(names.process_id("c:7"), "c:7");
        assert_eq!(names.process_name("x (w (a))"), "x (4)");
        assert_eq!(names.process_name("w (a)"), "w (3)");
    }

    #[test]
    fn a_host_has_a_short_name_without_control_characters() {
        let longest = "a".repeat(255);
        assert_eq!(check_name(&longest), Ok(()));
        for wrong in ["", "a\n", "\u{9b}", &"a".repeat(256)] {
            assert!(check_name(wrong).is_err(), "{wrong:?}");
        }
        let numbered = format!("{longest} (1000)");
        assert_eq!(check_numbered_name(&numbered), Ok(()));
        for text in ["a\nb".to_owned(), "ä".repeat(200), "\0".repeat(99)] {
            assert_eq!(check_name(&host_name(&text)), Ok(()), "{text:?}");
        }
        assert_eq!(host_name("a\nb"), "a\u{fffd}b");
    }
}
