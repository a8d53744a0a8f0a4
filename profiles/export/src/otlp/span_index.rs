//! The first pass of traces and profiles: collects the facts about spans that depend on all
//! threads.
//!
//! Holds, for each span of `tracing`, its number, its parent and its trace; for each flow its ends;
//! and what other threads recorded for a span. The sender of a flow is the parent of the span that
//! received it, because a request is the cause of the work for it; if a span received several, the
//! others are links. Invariants: parents form no circle; what other threads recorded takes at most
//! [`MAX_BYTES`] of memory, and beyond it each span has one number.

use std::collections::HashMap;

use super::super::ExportError;
use super::super::recording::{Recording, Sink, Thread, Totals};
use super::identity::{SessionIdentity, SpanRef, StableHash};
use super::kinds::MarkerKind;
use super::resource::ProcessKey;
use super::span_message::{SpanPart, Vocabulary};
use super::thread_spans::{Owner, ThreadSpans};
use profiler_reader::{Survey, as_index};

/// The limit on what threads recorded for spans of other threads, in bytes of memory.
const MAX_BYTES: usize = 64 << 20;
/// The memory of a part besides its content: its row, and about what the allocator adds.
const PART_BYTES: usize = size_of::<(SpanKey, SpanPart)>() + 64;
/// The number of ancestors among which a span is searched before it becomes their parent.
const MAX_ANCESTORS: usize = 1000;

/// The number of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ProcessIndex(u32);

/// A span of `tracing`, by its process and its number.
pub(super) type SpanKey = (ProcessIndex, u64);

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: SpanKey,
    parent: Option<u64>,
    /// The span of which a flow leads to it.
    sender: Option<SpanKey>,
    /// The span whose number its trace has.
    root: Option<SpanKey>,
}

impl Entry {
    /// The sender of a flow to it, or else the parent that it names.
    fn parent(&self) -> Option<SpanKey> {
        self.sender.or_else(|| Some((self.key.0, self.parent?)))
    }
}

/// The parent of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parent {
    pub(super) span: SpanRef,
    /// Whether a flow leads from it.
    pub(super) is_sender: bool,
}

/// All spans of a profile. See the [module](self).
#[derive(Debug)]
pub(super) struct SpanIndex {
    session: SessionIdentity,
    processes: HashMap<ProcessKey, ProcessIndex>,
    /// What identifiers have in place of each process.
    names: Vec<String>,
    entries: Vec<Entry>,
    places: HashMap<SpanKey, usize>,
    /// Further spans that a span is linked with, sorted by the span.
    links: Vec<(SpanKey, SpanKey)>,
    /// The spans that have begun a flow, sorted.
    senders: Vec<SpanKey>,
    /// What other threads recorded for a span, sorted by the span.
    parts: Vec<(SpanKey, SpanPart)>,
}

impl SpanIndex {
    /// Reads all threads.
    pub(super) fn of(recording: &Recording) -> Result<(Self, Totals), ExportError> {
        let mut first = FirstPass::new(recording.survey());
        let totals = recording.threads(&mut first)?;
        Ok((first.finish(), totals))
    }

    pub(super) const fn session(&self) -> SessionIdentity {
        self.session
    }

    /// The number of a thread's process.
    pub(super) fn process(&self, thread: &Thread<'_>) -> ProcessIndex {
        let known = self.processes.get(&ProcessKey::of(thread));
        known.copied().unwrap_or(ProcessIndex(u32::MAX))
    }

    /// What identifiers have in place of a process.
    pub(super) fn name(&self, process: ProcessIndex) -> &str {
        self.names
            .get(process.0 as usize)
            .map_or("", String::as_str)
    }

    /// The identifiers of a span of `tracing`, also of one that is not in the profile.
    pub(super) fn span(&self, key: SpanKey) -> SpanRef {
        let entry = self.entry(key);
        let (process, number) = entry.and_then(|entry| entry.root).unwrap_or(key);
        SpanRef {
            trace: self.session.trace(self.name(process), &numbered(number)),
            span: self.session.span(self.name(key.0), &numbered(key.1)),
        }
    }

    /// The parent of a span of `tracing`.
    pub(super) fn parent(&self, key: SpanKey) -> Option<Parent> {
        let entry = self.entry(key)?;
        let is_sender = entry.sender.is_some();
        Some(Parent {
            span: self.span(entry.parent()?),
            is_sender,
        })
    }

    /// The spans that a span is linked with, besides its parent.
    pub(super) fn links(&self, key: SpanKey) -> impl Iterator<Item = SpanRef> {
        let entry = self.entry(key).filter(|entry| entry.sender.is_some());
        let own = entry.and_then(|entry| Some((key.0, entry.parent?)));
        let further = of_key(&self.links, key).map(|(_, other)| *other);
        own.into_iter().chain(further).map(|other| self.span(other))
    }

    /// Whether a flow begins in a span.
    pub(super) fn is_sender(&self, key: SpanKey) -> bool {
        self.senders.binary_search(&key).is_ok()
    }

    /// What other threads recorded for a span.
    pub(super) fn parts(&self, key: SpanKey) -> impl Iterator<Item = &SpanPart> {
        of_key(&self.parts, key).map(|(_, part)| part)
    }

    fn entry(&self, key: SpanKey) -> Option<&Entry> {
        self.entries.get(*self.places.get(&key)?)
    }

    /// The place of an entry's parent, if it is in the profile.
    fn above(&self, entry: &Entry) -> Option<usize> {
        self.places.get(&entry.parent()?).copied()
    }

    /// Whether a span has another one among its ancestors, or too many to tell.
    fn descends(&self, key: SpanKey, from: SpanKey) -> bool {
        let first = self.places.get(&key).copied();
        let above = |place: &usize| self.above(self.entries.get(*place)?);
        let ancestors = std::iter::successors(first, above).take(MAX_ANCESTORS);
        let mut count = 0;
        let found = ancestors.inspect(|_| count += 1).any(|place| {
            self.entries
                .get(place)
                .is_some_and(|entry| entry.key == from)
        });
        found || count == MAX_ANCESTORS
    }

    /// Finds the trace of each span.
    fn find_roots(&mut self) {
        let mut path = Vec::new();
        let mut visited = vec![false; self.entries.len()];
        for start in 0..self.entries.len() {
            let mut at = start;
            let root = loop {
                let Some(entry) = self.entries.get(at) else {
                    break None;
                };
                // A circle, which only a made-up profile has, ends at a span that was visited.
                let is_known = visited.get(at).copied().unwrap_or(true);
                if entry.root.is_some() || is_known {
                    break entry.root.or(Some(entry.key));
                }
                visited
                    .iter_mut()
                    .skip(at)
                    .take(1)
                    .for_each(|visited| *visited = true);
                path.push(at);
                match self.above(entry) {
                    Some(above) => at = above,
                    None => break Some(entry.parent().unwrap_or(entry.key)),
                }
            };
            for place in path.drain(..) {
                if let Some(entry) = self.entries.get_mut(place) {
                    entry.root = root;
                }
            }
        }
    }
}

/// The place of a numbered span in its process.
pub(super) const fn numbered(number: u64) -> [u64; 2] {
    [0, number]
}

/// The rows of a sorted list that have a key.
fn of_key<T>(rows: &[(SpanKey, T)], key: SpanKey) -> impl Iterator<Item = &(SpanKey, T)> {
    let first = rows.partition_point(|(known, _)| *known < key);
    rows.iter()
        .skip(first)
        .take_while(move |(known, _)| *known == key)
}

/// The pass.
struct FirstPass {
    vocabulary: Vocabulary,
    index: SpanIndex,
    /// The span in which each flow began.
    sent: HashMap<[u64; 2], SpanKey>,
    /// When and in which span each flow ended.
    received: Vec<(i64, SpanKey, [u64; 2])>,
    /// The memory of what other threads recorded.
    bytes: usize,
    /// The number of parts of each span that are left out.
    dropped: HashMap<SpanKey, u64>,
    /// The number of processes with each number.
    same: HashMap<String, u32>,
}

impl Sink for FirstPass {
    const WITH_MARKERS: bool = true;

    fn thread(&mut self, thread: &Thread<'_>, _: &Survey) -> Result<(), ExportError> {
        let process = self.process(thread);
        let spans = ThreadSpans::of(thread);
        for span in &spans.spans {
            if let MarkerKind::Traced { number, parent } = span.kind {
                self.add((process, number), parent, span.start.is_some());
            }
        }
        for instant in &spans.instants {
            let Owner::Number(number) = instant.owner else {
                continue;
            };
            let key = (process, number);
            let name = as_index(instant.marker.name).and_then(|name| thread.texts.get(name));
            match (instant.kind, name.map_or("", String::as_str)) {
                (MarkerKind::Flow { .. }, name) => {
                    let payload = self.vocabulary.payload(&instant.marker, thread);
                    for (flow, _) in payload.flows() {
                        self.add_flow(name, flow, key, instant.at);
                    }
                }
                (MarkerKind::Relation { other, .. }, "follows from") => {
                    self.index.links.push((key, (process, other)));
                }
                (MarkerKind::Relation { .. }, _) => {}
                _ if spans.by_number.contains_key(&number) => {}
                _ => self.add_parts(key, self.vocabulary.parts(instant, thread)),
            }
        }
        Ok(())
    }
}

impl FirstPass {
    fn new(survey: &Survey) -> Self {
        Self {
            vocabulary: Vocabulary::of(survey),
            index: SpanIndex {
                session: SessionIdentity::of(survey),
                processes: HashMap::new(),
                names: Vec::new(),
                entries: Vec::new(),
                places: HashMap::new(),
                links: Vec::new(),
                senders: Vec::new(),
                parts: Vec::new(),
            },
            sent: HashMap::new(),
            received: Vec::new(),
            bytes: 0,
            dropped: HashMap::new(),
            same: HashMap::new(),
        }
    }

    fn process(&mut self, thread: &Thread<'_>) -> ProcessIndex {
        let index = &mut self.index;
        let next = ProcessIndex(u32::try_from(index.names.len()).unwrap_or(u32::MAX));
        let number = *index
            .processes
            .entry(ProcessKey::of(thread))
            .or_insert(next);
        if number == next {
            // In the Gecko format, two processes may have the same number.
            let same = self.same.entry(thread.pid.to_owned()).or_insert(0);
            *same += 1;
            let name = match *same {
                1 => thread.pid.to_owned(),
                count => format!("{}#{count}", thread.pid),
            };
            index.names.push(name);
        }
        number
    }

    fn add(&mut self, key: SpanKey, parent: Option<u64>, has_start: bool) {
        let SpanIndex {
            entries, places, ..
        } = &mut self.index;
        let place = *places.entry(key).or_insert(entries.len());
        match entries.get_mut(place) {
            // Only the start has the parent.
            Some(entry) if has_start => entry.parent = parent,
            Some(_) => {}
            None => entries.push(Entry {
                key,
                parent,
                sender: None,
                root: None,
            }),
        }
    }

    fn add_flow(&mut self, name: &str, flow: &str, key: SpanKey, at: i64) {
        let mut hash = StableHash::default();
        hash.text(flow);
        if name == "sent" {
            self.sent.entry(hash.finish()).or_insert(key);
            self.index.senders.push(key);
        } else {
            self.received.push((at, key, hash.finish()));
        }
    }

    fn add_parts(&mut self, key: SpanKey, parts: Vec<SpanPart>) {
        for part in parts {
            let bytes = self.bytes.saturating_add(part.length() + PART_BYTES);
            if bytes <= MAX_BYTES {
                self.bytes = bytes;
                self.index.parts.push((key, part));
            } else {
                *self.dropped.entry(key).or_insert(0) += 1;
            }
        }
    }

    fn finish(self) -> SpanIndex {
        let Self {
            mut index,
            sent,
            mut received,
            dropped,
            ..
        } = self;
        // A request comes before its answer, which may be a flow back.
        received.sort_unstable();
        for (_, receiver, flow) in received {
            let Some(sender) = sent
                .get(&flow)
                .copied()
                .filter(|sender| *sender != receiver)
            else {
                continue;
            };
            let place = index.places.get(&receiver).copied();
            let is_first = place
                .and_then(|place| index.entries.get(place))
                .is_some_and(|entry| entry.sender.is_none());
            if !is_first || index.descends(sender, receiver) {
                index.links.push((receiver, sender));
            } else if let Some(entry) = place.and_then(|place| index.entries.get_mut(place)) {
                entry.sender = Some(sender);
            }
        }
        index.links.sort_unstable();
        index.links.dedup();
        index.senders.sort_unstable();
        index.senders.dedup();
        let dropped = dropped.into_iter();
        let dropped = dropped.map(|(key, count)| (key, SpanPart::Dropped(count)));
        index.parts.extend(dropped);
        index.parts.sort_by_key(|(key, _)| *key);
        index.find_roots();
        index
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::proto::Message;
    use super::*;

    #[test]
    fn small_parts_are_bounded_by_their_memory_and_counted_beyond() {
        let mut first = FirstPass::new(&Survey::default());
        let keys = [1, 2].map(|number| (ProcessIndex(0), number));
        let all = 2 * MAX_BYTES / PART_BYTES;
        for _ in 0..all / 2 {
            for key in keys {
                first.add_parts(key, vec![SpanPart::Event(Message::default())]);
            }
        }
        let index = first.finish();
        let rows = index.parts.len();
        assert!(rows * size_of::<(SpanKey, SpanPart)>() <= MAX_BYTES);
        let dropped = keys.map(|key| match index.parts(key).last() {
            Some(SpanPart::Dropped(count)) => *count as usize,
            other => panic!("{other:?}"),
        });
        assert_eq!(
            rows - keys.len() + dropped.iter().sum::<usize>(),
            all / 2 * 2
        );
    }
}
