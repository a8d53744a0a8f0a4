//! Profiles: the samples of all threads, with the spans that were open.
//!
//! Called by [`super::encode`]. A process has two profiles: `cpu`, its processor time, and `wall`,
//! all time. A profile has one type of values, and a sample one value, because Pyroscope refuses
//! others. Without processor times there is only `wall`. Memory holds one thread, the dictionary of
//! a body, and, if the bodies are the parts of one request, what finds the dictionary's entries.
//! The dictionary is then in several parts, which decoders merge, as they do for each message.

use super::super::ExportError;
use super::super::bodies::{BodyKind, BodyLimit, BodySink, EncodedBody};
use super::super::proto::Message;
use super::super::recording::{Recording, Sink, Thread, Totals};
use super::super::slices::Slice;
use super::super::stack_sums::{StackSum, stack_sums};
use super::clock::UnixClock;
use super::dictionary::{AttributeValue, Dictionary, TableIndex};
use super::identity::Domain;
use super::links::placed;
use super::locations::Locations;
use super::open_spans::{OpenSpans, SampleContext, groups};
use super::requests::{add_item, add_items};
use super::resource::{ProcessKey, resource};
use super::span_index::SpanIndex;
use super::span_message::Vocabulary;
use super::thread_spans::ThreadSpans;
use profiler_reader::Survey;

/// The field of the request that has the dictionary.
const DICTIONARY: u64 = 2;

/// Fields of `Profile`.
mod profile {
    pub(super) const SAMPLE_TYPE: u64 = 1;
    pub(super) const SAMPLES: u64 = 2;
    pub(super) const TIME: u64 = 3;
    pub(super) const DURATION: u64 = 4;
    pub(super) const PERIOD_TYPE: u64 = 5;
    pub(super) const PERIOD: u64 = 6;
    pub(super) const ID: u64 = 7;
}

/// Fields of `Sample`.
mod sample {
    pub(super) const STACK: u64 = 1;
    pub(super) const ATTRIBUTES: u64 = 2;
    pub(super) const LINK: u64 = 3;
    pub(super) const VALUES: u64 = 4;
}

/// The size from which a part of one request is passed on, in bytes.
const PART: usize = 1 << 20;

/// Bytes for the fields of the profiles of a process besides their samples.
const ENVELOPE_BYTES: usize = 256;

/// The types of values.
const TYPES: [&str; 2] = ["cpu", "wall"];
const UNIT: &str = "nanoseconds";

/// Encodes the samples of all threads.
pub(super) fn encode(
    recording: &Recording,
    limit: BodyLimit,
    sink: &mut dyn BodySink,
) -> Result<Totals, ExportError> {
    let (index, _) = SpanIndex::of(recording)?;
    let survey = recording.survey();
    let mut profiles = Profiles {
        sink,
        limit,
        vocabulary: Vocabulary::of(survey),
        clock: UnixClock::of(&survey.meta),
        period_ns: survey.meta.interval_ns().unsigned_abs().max(1),
        index,
        dictionary: Dictionary::new(),
        locations: Locations::default(),
        request: Message::default(),
        process: None,
        samples: Default::default(),
        times: None,
        count: 0,
    };
    let totals = recording.threads(&mut profiles)?;
    profiles.finish()?;
    Ok(totals)
}

/// The process whose samples are collected.
struct OtlpProcess {
    key: ProcessKey,
    name: String,
    resource: Message,
}

struct Profiles<'s> {
    sink: &'s mut dyn BodySink,
    limit: BodyLimit,
    vocabulary: Vocabulary,
    clock: UnixClock,
    period_ns: u64,
    index: SpanIndex,
    dictionary: Dictionary,
    locations: Locations,
    /// The resources of the body.
    request: Message,
    process: Option<OtlpProcess>,
    /// The samples of the process, of each type, as fields of a profile.
    samples: [Message; TYPES.len()],
    /// Start of the first sample of the thread and end of the last, in nanoseconds since the
    /// session's start.
    times: Option<(i64, i64)>,
    /// The number of profiles so far.
    count: u64,
}

impl Sink for Profiles<'_> {
    const WITH_MARKERS: bool = true;

    fn thread(&mut self, thread: &Thread<'_>, survey: &Survey) -> Result<(), ExportError> {
        if self
            .process
            .as_ref()
            .is_none_or(|process| !process.key.is_of(thread))
        {
            self.end_process();
            let process = self.index.process(thread);
            self.process = Some(OtlpProcess {
                key: ProcessKey::of(thread),
                name: self.index.name(process).to_owned(),
                resource: resource(thread.pid, thread.process, &survey.meta),
            });
        }
        self.locations.begin(thread, survey);
        self.include(thread);
        let spans = ThreadSpans::of(thread);
        let placed = placed(&spans, &self.index, self.index.process(thread), thread.tid);
        let groups = groups(&spans, thread, &self.vocabulary);
        let mut open = OpenSpans::of(&spans, thread, &groups);
        let context = |slice: &Slice| open.at(slice.at, slice.stack, thread.tables);
        for sum in stack_sums(thread.slices, context) {
            let span = sum.context.span.and_then(|span| *placed.get(span)?);
            let link = span.map_or(TableIndex::ZERO, |span| self.dictionary.link(span.span));
            let group = sum.context.group.and_then(|group| groups.get(&group));
            let attributes = self.attributes(thread, group.map(|group| &**group));
            self.sample(&sum, link, &attributes, thread);
            self.send_if_full(thread)?;
        }
        Ok(())
    }
}

impl Profiles<'_> {
    /// Includes the times of a thread.
    fn include(&mut self, thread: &Thread<'_>) {
        let mut samples = thread.slices.iter().filter(|slice| slice.is_sample);
        let first = samples.next();
        let last = samples.next_back().or(first);
        if let (Some(first), Some(last)) = (first, last) {
            let (from, to) = self.times.unwrap_or((first.start, last.end));
            self.times = Some((from.min(first.start), to.max(last.end)));
        }
    }

    fn attributes(&mut self, thread: &Thread<'_>, group: Option<&str>) -> Vec<u64> {
        let tid = AttributeValue::Number(i64::try_from(thread.tid).unwrap_or(i64::MAX));
        let name = AttributeValue::Text(thread.name.to_owned());
        let mut all = vec![
            self.dictionary.attribute("thread.id", tid).number(),
            self.dictionary.attribute("thread.name", name).number(),
        ];
        if let Some(group) = group {
            let group = AttributeValue::Text(group.to_owned());
            all.push(self.dictionary.attribute("group", group).number());
        }
        all
    }

    fn sample(
        &mut self,
        sum: &StackSum<SampleContext>,
        link: TableIndex,
        attributes: &[u64],
        thread: &Thread<'_>,
    ) {
        let stack = self
            .locations
            .stack(sum.stack, thread.tables, &mut self.dictionary);
        let values = [sum.cpu_ns, sum.wall_ns];
        for (samples, value) in self
            .samples
            .iter_mut()
            .zip(values)
            .filter(|(_, value)| *value > 0)
        {
            let mut message = Message::default();
            message.number(sample::STACK, stack.number());
            message.numbers(sample::ATTRIBUTES, attributes);
            message.number(sample::LINK, link.number());
            message.numbers(sample::VALUES, &[value]);
            samples.message(profile::SAMPLES, &message);
        }
    }

    /// The size of the body if it ended now.
    fn length(&self) -> usize {
        let samples: usize = self
            .samples
            .iter()
            .map(|samples| samples.as_bytes().len())
            .sum();
        let dictionary = match self.limit {
            BodyLimit::Bytes(_) => self.dictionary.encoded().as_bytes().len(),
            BodyLimit::OneRequest => 0,
        };
        let process = self.process.as_ref();
        let resource = process.map_or(0, |process| process.resource.as_bytes().len());
        self.request.as_bytes().len() + samples + dictionary + resource + ENVELOPE_BYTES
    }

    /// Passes on a body if another sample may not fit.
    fn send_if_full(&mut self, thread: &Thread<'_>) -> Result<(), ExportError> {
        let is_one = self.limit == BodyLimit::OneRequest;
        if is_one && self.dictionary.encoded().as_bytes().len() >= PART {
            self.pass_on_dictionary()?;
        }
        match self.limit {
            // A sample adds its stack and the names in it.
            BodyLimit::Bytes(most) if self.length() >= most - most / 8 => {
                self.send()?;
                self.dictionary = Dictionary::new();
                self.locations.forget(thread.tables);
            }
            BodyLimit::OneRequest if self.length() >= PART => self.send()?,
            _ => return Ok(()),
        }
        self.include(thread);
        Ok(())
    }

    /// Adds the profiles of the process to the body.
    fn end_process(&mut self) {
        let Some(process) = self.process.take() else {
            return;
        };
        let (from, to) = self.times.take().unwrap_or_default();
        let mut items = Message::default();
        for (place, name) in TYPES.iter().enumerate() {
            let samples = self
                .samples
                .get_mut(place)
                .map(std::mem::take)
                .unwrap_or_default();
            if samples.is_empty() {
                continue;
            }
            let kind = self.value_type(name);
            let place = [self.count, place as u64, from.cast_unsigned()];
            let id = self
                .index
                .session()
                .wide(Domain::Profile, &process.name, &place);
            let mut message = Message::default();
            message.message(profile::SAMPLE_TYPE, &kind);
            message.append(&samples);
            message.fixed(profile::TIME, self.clock.at(from));
            // Pyroscope takes a length of 0 for ten seconds.
            message.number(
                profile::DURATION,
                to.saturating_sub(from).max(1).unsigned_abs(),
            );
            message.message(profile::PERIOD_TYPE, &kind);
            message.number(profile::PERIOD, self.period_ns);
            message.bytes(profile::ID, &id);
            add_item(&message, &mut items);
            self.count += 1;
        }
        if !items.is_empty() {
            add_items(&process.resource, &items, &mut self.request);
        }
        self.process = Some(process);
    }

    fn value_type(&mut self, name: &str) -> Message {
        let mut kind = Message::default();
        kind.number(1, self.dictionary.text(name).number());
        kind.number(2, self.dictionary.text(UNIT).number());
        kind
    }

    /// Passes on the body.
    fn send(&mut self) -> Result<(), ExportError> {
        self.end_process();
        if self.request.is_empty() {
            return Ok(());
        }
        if self.limit != BodyLimit::OneRequest {
            self.request.message(DICTIONARY, self.dictionary.encoded());
        }
        self.pass_on()
    }

    /// Passes on the entries that the dictionary has got since the last time.
    fn pass_on_dictionary(&mut self) -> Result<(), ExportError> {
        let entries = self.dictionary.take_encoded();
        self.request.message(DICTIONARY, &entries);
        self.pass_on()
    }

    fn pass_on(&mut self) -> Result<(), ExportError> {
        self.sink.body(EncodedBody {
            kind: BodyKind::OtlpProfiles,
            bytes: self.request.as_bytes(),
        })?;
        self.request.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<(), ExportError> {
        self.send()?;
        if self.limit == BodyLimit::OneRequest {
            self.pass_on_dictionary()?;
        }
        Ok(())
    }
}
