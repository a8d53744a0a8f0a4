//! Code that the tests share: a session that measures groups, their totals, and what is recorded.

use std::fs::File;
use std::hint::black_box;

use profiler_core::internal::entry::stack::Frame;
use profiler_core::internal::entry::{Entry, MarkerEntry, Timing};
use profiler_core::internal::payload::{FieldValue, PayloadReader};
use profiler_core::internal::reader::{ChunkBuffer, ChunkRead, PoolReader, Snapshot};
use profiler_core::marker::{MarkerOptions, MarkerStack, add_untyped_marker, category};
use profiler_core::session;
use profiler_parent::Session;
use profiler_parent::groups::{GroupKind, GroupTotals, Monitor, Probes};
use profiler_rayon::PoolProfile;
use rayon::{ThreadPool, ThreadPoolBuilder};
use test_support::patience::until;

/// A session in which all groups are measured.
pub(crate) struct MeasuredSession {
    _monitor: Monitor,
    pub(crate) session: Session,
}

impl MeasuredSession {
    pub(crate) fn start() -> Self {
        let session = Session::builder().start().unwrap();
        let monitor = session.monitor(Probes::ALL);
        assert!(until(|| profiler_core::groups::probes() == Probes::ALL));
        Self {
            _monitor: monitor,
            session,
        }
    }

    /// The totals of a group of this process.
    pub(crate) fn totals(&self, kind: GroupKind, name: &str) -> GroupTotals {
        let groups = self.session.groups().merged();
        let found = groups
            .into_iter()
            .find(|group| group.kind == kind && group.name == name);
        found.map_or_else(GroupTotals::nothing, |group| group.totals)
    }

    /// How often a component was entered, and its runs.
    pub(crate) fn counts(&self, component: &str) -> (u64, u64) {
        let totals = self.totals(GroupKind::Component, component);
        (totals.ticks, totals.runs)
    }

    /// The time for all groups together. Time that counts twice is in it once.
    pub(crate) fn process_ns(&self) -> u64 {
        let groups = self.session.groups().merged();
        let of_process = groups
            .iter()
            .filter(|group| group.kind == GroupKind::Process);
        of_process.map(|group| group.totals.wall_ns).sum()
    }
}

/// A pool with this many workers.
pub(crate) fn pool(name: &str, workers: usize) -> ThreadPool {
    let builder = ThreadPoolBuilder::new().num_threads(workers);
    PoolProfile::new(name).build(builder).unwrap()
}

/// Work that takes a millisecond or more.
pub(crate) fn work() {
    for number in 0..3_000_000_u64 {
        black_box(number);
    }
}

/// Records a marker with the open labels of the calling thread.
pub(crate) fn mark(name: &str) {
    let options = MarkerOptions::default().with_stack(MarkerStack::Labels);
    add_untyped_marker(name, &category::OTHER, options);
}

/// Whether a marker is an instant, an interval, or one end of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Instant,
    Start,
    End,
    Interval,
}

/// A recorded marker.
#[derive(Clone, Debug)]
pub(crate) struct SeenMarker {
    pub(crate) name: String,
    pub(crate) type_name: String,
    pub(crate) phase: Phase,
    /// The fields that are numbers.
    pub(crate) numbers: Vec<(String, u64)>,
    /// The labels of its stack, outermost first.
    pub(crate) labels: Vec<String>,
}

impl SeenMarker {
    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        let field = self.numbers.iter().find(|(known, _)| known == key);
        field.map(|(_, number)| *number)
    }
}

/// The recorded markers of this name, in the order of each thread.
pub(crate) fn named(name: &str) -> Vec<SeenMarker> {
    let reader: PoolReader<File> = PoolReader::open(session::pool_file().unwrap()).unwrap();
    let snapshot = reader.snapshot().unwrap();
    let mut buffer = ChunkBuffer::default();
    let mut all = Vec::new();
    for chunk in snapshot.threads.iter().flat_map(|thread| &thread.chunks) {
        let ChunkRead::Entries(entries) = reader.read_chunk(chunk, &mut buffer).unwrap() else {
            continue;
        };
        for entry in entries {
            if let Entry::Marker(marker) = entry {
                all.push(seen(&snapshot, &marker));
            }
        }
    }
    all.retain(|seen| seen.name == name);
    all
}

/// The labels that were open at the only marker of this name.
pub(crate) fn labels_at(name: &str) -> Vec<String> {
    let [only] = named(name).try_into().unwrap();
    only.labels
}

fn seen(snapshot: &Snapshot, marker: &MarkerEntry<'_>) -> SeenMarker {
    let definitions = &snapshot.definitions;
    let site = definitions.site(marker.site).unwrap();
    let marker_type = definitions.marker_type(site.marker_type);
    let keys = marker_type.map(|known| known.keys.clone());
    let values = PayloadReader::new(marker.payload).map(Result::unwrap);
    let fields = keys.unwrap_or_default().into_iter().zip(values);
    let label = |frame| match frame {
        Frame::Label(id) => definitions.label(id).unwrap().name.clone(),
        other => panic!("{other:?}"),
    };
    SeenMarker {
        name: marker.name.unwrap_or(&site.name).to_owned(),
        type_name: marker_type.map_or_else(String::new, |known| known.schema.name.clone()),
        phase: match marker.timing {
            Timing::Instant(_) => Phase::Instant,
            Timing::Interval(..) => Phase::Interval,
            Timing::Start(_) => Phase::Start,
            Timing::End(_) => Phase::End,
        },
        numbers: fields
            .filter_map(|(key, value)| match value {
                FieldValue::U64(number) => Some((key, number)),
                _ => None,
            })
            .collect(),
        labels: marker.stack.frames().map(label).collect(),
    }
}
