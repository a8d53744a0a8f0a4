//! Sessions below this one: programs of the tree that have a profiler session of their own.
//!
//! A process has one recorder, so what such a session records cannot be in this profile. Each
//! session is reported once, when it becomes known, with what can be done. Those beyond the first
//! [`MAX`] are only counted, at the end. Invariant: the number of messages is bounded.

use std::collections::BTreeSet;

use profiler_parent::ProcessReport;

use crate::plain::plain;

/// The most sessions that are reported one by one. A tree of tests may have very many.
const MAX: usize = 4;

/// The sessions that were reported, by the numbers of their processes.
#[derive(Debug, Default)]
pub(super) struct NestedSessions {
    known: BTreeSet<u32>,
}

/// A process of the tree, as far as it matters here.
#[derive(Clone, Copy, Debug)]
struct Seen<'a> {
    name: &'a str,
    pid: u32,
    /// The process whose session records it, if that is another session.
    recorded_by: Option<u32>,
}

impl NestedSessions {
    /// Whether no further session is reported by [`Self::news`].
    pub(super) fn is_full(&self) -> bool {
        self.known.len() >= MAX
    }

    /// The message about the sessions that were not reported.
    pub(super) fn rest(&self, processes: &[ProcessReport]) -> Option<String> {
        let sessions = processes.iter().filter_map(|process| process.recorded_by);
        self.rest_of(sessions.map(|session| session.get()))
    }

    fn rest_of(&self, sessions: impl Iterator<Item = u32>) -> Option<String> {
        let all: BTreeSet<u32> = sessions.collect();
        let further = all.difference(&self.known).count();
        (further > 0).then(|| {
            format!("further processes with a profiler session of their own: {further} or more")
        })
    }

    /// The messages about sessions that have become known.
    pub(super) fn news(&mut self, processes: &[ProcessReport]) -> Vec<String> {
        let all: Vec<Seen<'_>> = processes
            .iter()
            .map(|process| Seen {
                name: &process.name,
                pid: process.pid.get(),
                recorded_by: process.recorded_by.map(|session| session.get()),
            })
            .collect();
        self.news_about(&all)
    }

    fn news_about(&mut self, all: &[Seen<'_>]) -> Vec<String> {
        let mut messages = Vec::new();
        for session in all.iter().filter_map(|process| process.recorded_by) {
            if self.known.len() < MAX && self.known.insert(session) {
                messages.push(message(session, all));
            }
        }
        messages
    }
}

/// What is said about the session of a process.
fn message(session: u32, all: &[Seen<'_>]) -> String {
    let of_session: Vec<_> = all.iter().filter(|one| one.pid == session).collect();
    let name = of_session.last().map_or("a process", |own| own.name);
    let mut own = of_session.iter();
    let records_itself = own.any(|process| process.recorded_by == Some(session));
    let (what, advice) = match records_itself {
        true => (
            "records it and the processes that it starts",
            "; a program that calls profiler_child::init() before it starts its session is \
             recorded here",
        ),
        false => ("records the processes that it starts", ""),
    };
    format!(
        "{} ({session}) has a profiler session of its own, which {what}: this profile only names \
         them; the profiles of that session have their data{advice}",
        plain(name)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(name: &str, pid: u32, recorded_by: Option<u32>) -> Seen<'_> {
        Seen {
            name,
            pid,
            recorded_by,
        }
    }

    #[test]
    fn a_session_is_reported_once_with_its_program() {
        let mut nested = NestedSessions::default();
        let all = [
            seen("sh", 3, None),
            seen("app", 7, Some(7)),
            seen("worker", 8, Some(7)),
        ];
        let messages = nested.news_about(&all);
        let [message] = messages.as_slice() else {
            panic!("{messages:?}");
        };
        let begin = "app (7) has a profiler session of its own, which records it and the";
        assert!(message.starts_with(begin), "{message}");
        assert!(message.contains("profiler_child::init()"), "{message}");
        assert_eq!(nested.news_about(&all), [] as [String; 0]);
    }

    #[test]
    fn a_program_that_is_recorded_here_gets_no_advice() {
        let mut nested = NestedSessions::default();
        let all = [seen("app", 7, None), seen("worker", 8, Some(7))];
        let messages = nested.news_about(&all);
        assert_eq!(messages.len(), 1);
        assert!(!messages[0].contains("init()"), "{messages:?}");
    }

    #[test]
    fn the_number_of_messages_is_bounded() {
        let mut nested = NestedSessions::default();
        let all: Vec<Seen<'_>> = (1..1000).map(|pid| seen("p", pid, Some(pid))).collect();
        assert_eq!(nested.news_about(&all).len(), MAX);
        assert_eq!(nested.news_about(&all), [] as [String; 0]);
        assert!(nested.is_full());
        let rest = nested.rest_of(1..1000).unwrap();
        assert!(rest.contains("995 or more"), "{rest}");
        assert_eq!(nested.rest_of(1..4), None);
    }
}
