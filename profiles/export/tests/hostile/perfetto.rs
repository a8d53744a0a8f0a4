//! Reads a trace of Perfetto according to its specification, and checks that its references are
//! valid and that the slices of each track nest.
//!
//! Used by `exported`.

use std::collections::{HashMap, HashSet};

use test_support::protobuf::{Field, fields};

/// The interned data that is known at a packet: the field of the table, and the entry's number.
type Interned = HashSet<(u64, u64)>;

/// What was seen of a trace.
#[derive(Default)]
struct Seen {
    interned: Interned,
    tracks: HashSet<u64>,
    processes: HashSet<u64>,
    threads: HashSet<u64>,
    samples: u64,
    /// The times and types of the events of each track, in the order of the file.
    events: HashMap<u64, Vec<(u64, u64)>>,
    parents: HashSet<u64>,
}

fn number(message: &[u8], wanted: u64) -> Option<u64> {
    fields(message).into_iter().find_map(|field| match field {
        Field::Number(field, value) if field == wanted => Some(value),
        _ => None,
    })
}

fn numbers(message: &[u8], wanted: u64) -> Vec<u64> {
    let value = |field| match field {
        Field::Number(field, value) if field == wanted => Some(value),
        _ => None,
    };
    fields(message).into_iter().filter_map(value).collect()
}

fn inner(message: &[u8], wanted: u64) -> Vec<&[u8]> {
    let value = |field| match field {
        Field::Bytes(field, bytes) if field == wanted => Some(bytes),
        _ => None,
    };
    fields(message).into_iter().filter_map(value).collect()
}

/// Checks a whole trace. Returns its number of samples.
pub(crate) fn check(bytes: &[u8]) -> u64 {
    let mut seen = Seen::default();
    for packet in inner(bytes, 1) {
        seen.packet(packet);
    }
    for (track, events) in &seen.events {
        assert!(seen.tracks.contains(track), "an event of no track");
        check_nesting(events);
    }
    assert!(
        seen.parents
            .iter()
            .all(|parent| seen.tracks.contains(parent))
    );
    seen.samples
}

impl Seen {
    fn packet(&mut self, packet: &[u8]) {
        assert_eq!(number(packet, 10), Some(1), "one sequence");
        match number(packet, 13) {
            Some(1) => self.interned.clear(),
            flags => assert_eq!(flags, Some(2), "it needs the state"),
        }
        for data in inner(packet, 12) {
            self.intern(data);
        }
        let at = number(packet, 8);
        for event in inner(packet, 11) {
            self.event(at.expect("a time"), event);
        }
        for sample in inner(packet, 66) {
            assert!(at.is_some(), "a time");
            self.samples += 1;
            self.refers(7, number(sample, 4));
            let known =
                |field, known: &HashSet<u64>| known.contains(&number(sample, field).expect("set"));
            assert!(known(2, &self.processes) && known(3, &self.threads));
        }
        for track in inner(packet, 60) {
            self.track(track);
        }
    }

    fn refers(&self, table: u64, entry: Option<u64>) {
        let entry = entry.expect("a reference");
        assert!(
            self.interned.contains(&(table, entry)),
            "{entry} of {table}"
        );
    }

    fn refer(&self, table: u64, entries: Vec<u64>) {
        for entry in entries {
            self.refers(table, Some(entry));
        }
    }

    fn intern(&mut self, data: &[u8]) {
        for field in fields(data) {
            let Field::Bytes(table, entry) = field else {
                panic!("a number in interned data");
            };
            let iid = number(entry, 1).expect("a number");
            assert!(self.interned.insert((table, iid)), "{iid} of {table} twice");
            match table {
                6 => {
                    self.refers(5, number(entry, 2));
                    self.refers(19, number(entry, 3));
                    self.refer(18, numbers(entry, 5));
                }
                7 => {
                    let frames = numbers(entry, 2);
                    assert!(!frames.is_empty());
                    self.refer(6, frames);
                }
                19 => {
                    self.refer(17, numbers(entry, 7));
                    self.refer(16, numbers(entry, 2));
                }
                16 => {}
                _ => assert!(std::str::from_utf8(inner(entry, 2)[0]).is_ok()),
            }
        }
    }

    fn event(&mut self, at: u64, event: &[u8]) {
        let kind = number(event, 9).expect("a type");
        let track = number(event, 11).expect("a track");
        self.events.entry(track).or_default().push((at, kind));
        for (field, table) in [(3, 1), (10, 2), (56, 7)] {
            self.refer(table, numbers(event, field));
        }
        for annotation in inner(event, 4) {
            self.refer(3, numbers(annotation, 1));
        }
    }

    fn track(&mut self, track: &[u8]) {
        let id = number(track, 1).expect("a number");
        assert!(self.tracks.insert(id), "track {id} twice");
        self.parents.extend(number(track, 5));
        for process in inner(track, 3) {
            let pid = number(process, 1).expect("a number");
            assert!(
                i32::try_from(pid).is_ok() && self.processes.insert(pid),
                "{pid} twice"
            );
        }
        for thread in inner(track, 4) {
            let tid = number(thread, 2).expect("a number");
            assert!(
                i32::try_from(tid).is_ok() && self.threads.insert(tid),
                "{tid} twice"
            );
        }
    }
}

/// Checks that every end has a beginning. Events with the same time keep their order.
fn check_nesting(events: &[(u64, u64)]) {
    let mut events = events.to_vec();
    events.sort_by_key(|(at, _)| *at);
    let mut open = 0_u64;
    for (_, kind) in events {
        match kind {
            1 => open += 1,
            2 => open = open.checked_sub(1).expect("an end without a beginning"),
            _ => {}
        }
    }
}
