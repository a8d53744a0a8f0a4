//! The name of a frame that shows for whom a thread waits: `waiting for worker 3 [1234] (pipe)`.
//!
//! The session writes it for threads that wait, and analyses of profiles read it. The number in
//! brackets is the number that the system has given to the process.

use std::fmt;

const PREFIX: &str = "waiting for ";
const ITSELF: &str = "itself";
const NOT_RECORDED: &str = "another process, which is not recorded";
const THREAD: &str = "its thread ";

/// For whom a thread waits, and the kind of the wait.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaitLabel {
    /// Who can end the wait.
    pub whom: Awaited,
    /// The kind of the wait, such as `pipe`.
    pub kind: String,
}

/// A process or a thread, with its name and its number.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Numbered {
    /// Its name. In a label, brackets are replaced with parentheses.
    pub name: String,
    /// The system's number.
    pub number: u32,
}

/// Who can end a wait.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Awaited {
    /// One of these processes; not empty.
    Processes(Vec<Numbered>),
    /// One of this number of processes, which are not named.
    OneOf(u32),
    /// Another thread of the same process.
    Thread(Numbered),
    /// An unknown thread of the same process.
    Itself,
    /// A process on another machine, by its address.
    Address(String),
    /// A process that is not recorded.
    NotRecorded,
}

impl fmt::Display for Numbered {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.replace('[', "(").replace(']', ")");
        write!(text, "{name} [{}]", self.number)
    }
}

impl fmt::Display for Awaited {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Processes(all) => {
                for (place, one) in all.iter().enumerate() {
                    let before = if place == 0 { "" } else { " or " };
                    write!(text, "{before}{one}")?;
                }
                Ok(())
            }
            Self::OneOf(count) => write!(text, "one of {count} processes"),
            Self::Thread(thread) => write!(text, "{THREAD}{thread}"),
            Self::Itself => text.write_str(ITSELF),
            Self::Address(address) => text.write_str(address),
            Self::NotRecorded => text.write_str(NOT_RECORDED),
        }
    }
}

impl fmt::Display for WaitLabel {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(text, "{PREFIX}{} ({})", self.whom, self.kind)
    }
}

impl WaitLabel {
    /// The label with this name. `None` if the name is that of something else.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        let rest = name.strip_prefix(PREFIX)?.strip_suffix(')')?;
        let (whom, kind) = rest.rsplit_once(" (")?;
        Some(Self {
            whom: awaited(whom),
            kind: kind.to_owned(),
        })
    }
}

fn awaited(whom: &str) -> Awaited {
    let thread = whom.strip_prefix(THREAD).and_then(numbered);
    let count = whom
        .strip_prefix("one of ")
        .and_then(|rest| rest.strip_suffix(" processes")?.parse().ok());
    match whom {
        ITSELF => Awaited::Itself,
        NOT_RECORDED => Awaited::NotRecorded,
        _ => thread
            .map(Awaited::Thread)
            .or_else(|| count.map(Awaited::OneOf))
            .or_else(|| processes(whom).map(Awaited::Processes))
            .unwrap_or_else(|| Awaited::Address(whom.to_owned())),
    }
}

/// The processes of a list. `None` if it is not such a list.
fn processes(list: &str) -> Option<Vec<Numbered>> {
    let one = |text: &str| numbered(&format!("{}]", text.strip_suffix(']').unwrap_or(text)));
    list.split("] or ").map(one).collect()
}

/// A text such as `name [12]`.
fn numbered(text: &str) -> Option<Numbered> {
    let (name, number) = text.strip_suffix(']')?.rsplit_once(" [")?;
    Some(Numbered {
        name: name.to_owned(),
        number: number.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(name: &str, number: u32) -> Numbered {
        let name = name.to_owned();
        Numbered { name, number }
    }

    #[test]
    fn a_label_reads_like_a_sentence_and_is_read_again() {
        let name = |whom, kind: &str| {
            let kind = kind.to_owned();
            let label = WaitLabel { whom, kind };
            let text = label.to_string();
            assert_eq!(WaitLabel::of(&text), Some(label));
            text
        };
        let two = vec![one("worker 3", 12), one("a or b", 7)];
        for (whom, kind, text) in [
            (
                Awaited::Processes(two),
                "pipe",
                "waiting for worker 3 [12] or a or b [7] (pipe)",
            ),
            (
                Awaited::Thread(one("pool", 9)),
                "mutex",
                "waiting for its thread pool [9] (mutex)",
            ),
            (Awaited::Itself, "eventfd", "waiting for itself (eventfd)"),
            (
                Awaited::OneOf(5),
                "unix socket",
                "waiting for one of 5 processes (unix socket)",
            ),
            (
                Awaited::Address("[::1]:80".to_owned()),
                "TCP",
                "waiting for [::1]:80 (TCP)",
            ),
            (
                Awaited::NotRecorded,
                "pipe",
                "waiting for another process, which is not recorded (pipe)",
            ),
        ] {
            assert_eq!(name(whom, kind), text);
        }
    }

    #[test]
    fn other_names_are_no_waits() {
        for name in [
            "",
            "read",
            "waiting for",
            "waiting for godot",
            "waiting (x)",
        ] {
            assert_eq!(WaitLabel::of(name), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn names_of_any_characters_keep_their_numbers(
            names in prop::collection::vec((".{0,20}", any::<u32>()), 1..4),
        ) {
            let all: Vec<_> = names.iter().map(|(name, number)| one(name, *number)).collect();
            let label = WaitLabel { whom: Awaited::Processes(all), kind: "pipe".to_owned() };
            let read = WaitLabel::of(&label.to_string()).unwrap();
            if let Awaited::Processes(read) = read.whom {
                let numbers = |all: &[Numbered]| all.iter().map(|one| one.number).collect::<Vec<_>>();
                let told: Vec<u32> = names.iter().map(|(_, number)| *number).collect();
                prop_assert_eq!(numbers(&read), told);
            } else {
                prop_assert!(names[0].0.starts_with("its thread "));
            }
        }
    }
}
