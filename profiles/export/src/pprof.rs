//! pprof: Google's protocol buffer. A sample for each stack of each thread, with process, thread
//! and group as labels.
//!
//! Called by [`super::export`], which writes all processes to a compressed file, and by
//! [`super::pprof_bodies`], which makes a body for each process. A sample has the group of the
//! innermost span that was open. A sample has three values: number of samples, time (running or
//! waiting), processor time. Fields may come in any order, so samples are written per thread, and
//! the entries that they refer to at the end. A library is a mapping; its addresses are relative to
//! it. Of a deep stack, the innermost [`MAX_FRAMES`] functions are written, and
//! [`CALLERS_LEFT_OUT`] as their caller.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::ExportError;
use super::by_row::ByRow;
use super::depth::{CALLERS_LEFT_OUT, MAX_FRAMES};
use super::otlp::{OpenSpans, ThreadSpans, Vocabulary, groups, may_have_groups};
use super::proto::Message;
use super::recording::{Recording, Sink, Thread, Totals};
use super::slices::Slice;
use super::stack_sums::{StackSum, stack_sums};
use super::tree::What;
use profiler_files::output::{BoundedWriter, ProfileFile, WriteBehind};
use profiler_reader::{Frame, Function, NodeId, Survey, Tables};

/// Field numbers of `Profile`.
mod field {
    pub(super) const SAMPLE_TYPE: u64 = 1;
    pub(super) const SAMPLE: u64 = 2;
    pub(super) const MAPPING: u64 = 3;
    pub(super) const LOCATION: u64 = 4;
    pub(super) const FUNCTION: u64 = 5;
    pub(super) const STRING_TABLE: u64 = 6;
    pub(super) const TIME_NANOS: u64 = 9;
    pub(super) const DURATION_NANOS: u64 = 10;
    pub(super) const PERIOD_TYPE: u64 = 11;
    pub(super) const PERIOD: u64 = 12;
    pub(super) const DEFAULT_SAMPLE_TYPE: u64 = 14;
}

/// Writes the file, compressed regardless of its name.
pub(super) fn write(recording: &Recording, to: &Path) -> Result<Totals, ExportError> {
    let by_name = to.extension().is_some_and(|extension| extension == "gz");
    let (totals, file) = match by_name {
        true => {
            let (totals, out) = write_to(recording, ProfileFile::create_behind(to)?)?;
            (totals, out.into_inner().finish()?)
        }
        false => {
            let file = ProfileFile::create(to)?;
            let out = WriteBehind::new(GzEncoder::new(file, Compression::default()));
            let (totals, packed) = write_to(recording, out)?;
            (totals, packed.into_inner().finish()?.finish()?)
        }
    };
    file.commit()?;
    Ok(totals)
}

fn write_to<W: Write>(
    recording: &Recording,
    out: W,
) -> Result<(Totals, BoundedWriter<W>), ExportError> {
    let out = BoundedWriter::new(out, recording.most_bytes());
    let mut profile = Profile::new(out, recording.survey());
    let totals = recording.threads(&mut profile)?;
    Ok((totals, profile.finish(recording.survey())?))
}

/// Functions or mappings with their numbers, which start at 1.
type Numbered<K> = HashMap<K, u64>;

/// A profile that is being written.
pub(super) struct Profile<W> {
    out: W,
    vocabulary: Vocabulary,
    /// Bytes of the samples so far, and about those of what they refer to.
    length: usize,
    texts: HashMap<String, u64>,
    /// By name, file and first line.
    functions: Numbered<(u64, u64, u64)>,
    mappings: Numbered<u64>,
    /// By mapping, address, function and line.
    locations: Numbered<(u64, u64, u64, u64)>,
    /// Start of the first slice and end of the last, in nanoseconds since the session's start.
    times: Option<(i64, i64)>,
    /// Whether a sample has processor time, and whether one has wall time.
    has_cpu: bool,
    has_wall: bool,
    /// The locations of the frames of the present tables.
    known: ByRow<u64>,
    /// The locations of the sample that is being written, the innermost first.
    stack: Vec<u64>,
    /// The sample, and the field that contains it.
    sample: Message,
    whole: Message,
}

/// The samples of one stack and one group.
pub(super) type GroupSum = StackSum<Option<Arc<str>>>;

/// Sums the samples of a thread.
pub(super) fn group_sums(thread: &Thread<'_>, vocabulary: &Vocabulary) -> Vec<GroupSum> {
    if !may_have_groups(thread) {
        let sums = stack_sums(thread.slices, |_| ()).into_iter();
        return sums.map(|sum| sum.with_context(|()| None)).collect();
    }
    let spans = ThreadSpans::of(thread);
    let groups = groups(&spans, thread, vocabulary);
    let mut open = OpenSpans::of(&spans, thread, &groups);
    // The place of the innermost span with a group.
    let place = |slice: &Slice| {
        let place = open.at(slice.at, slice.stack, thread.tables).group;
        place.filter(|place| groups.contains_key(place))
    };
    let sums = stack_sums(thread.slices, place).into_iter();
    let name = |place: Option<usize>| groups.get(&place?).cloned();
    sums.map(|sum| sum.with_context(name)).collect()
}

/// The largest number that is written: readers use signed integers.
const MAX: u64 = i64::MAX.unsigned_abs();

/// About the bytes of a text's length, or of a location or function.
const ROW: usize = 24;

impl<W: Write> Sink for Profile<W> {
    const WITH_MARKERS: bool = true;

    fn thread(&mut self, thread: &Thread<'_>, _: &Survey) -> Result<(), ExportError> {
        let all = group_sums(thread, &self.vocabulary);
        self.samples(thread, &all, usize::MAX)?;
        Ok(())
    }
}

impl<W: Write> Profile<W> {
    pub(super) fn new(out: W, survey: &Survey) -> Self {
        Self {
            out,
            vocabulary: Vocabulary::of(survey),
            length: 0,
            texts: HashMap::from([(String::new(), 0)]),
            functions: HashMap::new(),
            mappings: HashMap::new(),
            locations: HashMap::new(),
            times: None,
            has_cpu: false,
            has_wall: false,
            known: ByRow::default(),
            stack: Vec::new(),
            sample: Message::default(),
            whole: Message::default(),
        }
    }

    /// Writes samples of a thread, until the profile has about this number of bytes. Returns the
    /// number of written samples, which is not 0 if there are any.
    pub(super) fn samples(
        &mut self,
        thread: &Thread<'_>,
        all: &[GroupSum],
        most: usize,
    ) -> Result<usize, ExportError> {
        if let (Some(first), Some(last)) = (thread.slices.first(), thread.slices.last()) {
            let (from, to) = self.times.unwrap_or((first.start, last.end));
            self.times = Some((from.min(first.start), to.max(last.end)));
        }
        let labels = self.labels(thread);
        let frames = thread.tables.frames.len();
        self.known.begin_thread(frames, thread.has_own_tables);
        for (count, sum) in all.iter().enumerate() {
            if count > 0 && self.length >= most {
                return Ok(count);
            }
            self.sample(thread.tables, sum, &labels)?;
        }
        Ok(all.len())
    }

    fn put(&mut self, field: u64, message: &Message) -> std::io::Result<()> {
        self.whole.clear();
        self.whole.message(field, message);
        self.out.write_all(self.whole.as_bytes())
    }

    /// Writes the sample of a stack.
    fn sample(&mut self, tables: &Tables, sum: &GroupSum, labels: &Message) -> std::io::Result<()> {
        self.locate(tables, sum.stack);
        self.has_cpu |= sum.cpu_ns > 0;
        self.has_wall |= sum.wall_ns > 0;
        let mut sample = std::mem::take(&mut self.sample);
        sample.clear();
        sample.numbers(1, &self.stack);
        sample.numbers(2, &[sum.samples, sum.wall_ns, sum.cpu_ns]);
        sample.append(labels);
        if let Some(group) = &sum.context {
            let label = self.text_label("group", group);
            sample.message(3, &label);
        }
        self.length = self.length.saturating_add(sample.as_bytes().len());
        let put = self.put(field::SAMPLE, &sample);
        self.sample = sample;
        put
    }

    fn text(&mut self, text: &str) -> u64 {
        if let Some(known) = self.texts.get(text) {
            return *known;
        }
        let next = self.texts.len() as u64;
        self.length = self.length.saturating_add(text.len() + ROW);
        self.texts.insert(text.to_owned(), next);
        next
    }

    /// The labels of a thread's samples, as fields of a sample.
    fn labels(&mut self, thread: &Thread<'_>) -> Message {
        let texts = [
            ("process", thread.process),
            ("pid", thread.pid),
            ("thread", thread.name),
        ];
        let mut labels = Message::default();
        for (key, value) in texts {
            let label = self.text_label(key, value);
            labels.message(3, &label);
        }
        let mut tid = Message::default();
        tid.number(1, self.text("tid"));
        tid.number(3, thread.tid);
        labels.message(3, &tid);
        labels
    }

    fn text_label(&mut self, key: &str, value: &str) -> Message {
        let mut label = Message::default();
        label.number(1, self.text(key));
        label.number(2, self.text(value));
        label
    }

    /// Finds the locations of a stack, innermost first.
    fn locate(&mut self, tables: &Tables, stack: Option<NodeId>) {
        let mut locations = std::mem::take(&mut self.stack);
        locations.clear();
        let mut frames = stack.into_iter().flat_map(|stack| tables.stack(stack));
        for (id, frame) in frames.by_ref().take(MAX_FRAMES) {
            let known = self.known.get(id.0).copied();
            locations.push(known.unwrap_or_else(|| {
                let location = self.location(tables, frame);
                self.known.insert(id.0, location);
                location
            }));
        }
        if frames.next().is_some() {
            locations.push(self.special(CALLERS_LEFT_OUT));
        } else if locations.is_empty() {
            locations.push(self.special(What::Program.special().unwrap_or_default()));
        }
        self.stack = locations;
    }

    /// The location of a name that is not a function's.
    fn special(&mut self, name: &str) -> u64 {
        let function = self.function(&Function {
            name,
            ..Function::default()
        });
        self.numbered_location((0, 0, function, 0))
    }

    fn location(&mut self, tables: &Tables, frame: Frame) -> u64 {
        let function = tables.function(frame.func).unwrap_or_default();
        let mapping = match function.library {
            Some(library) => {
                let name = self.text(library);
                let next = self.mappings.len() as u64 + 1;
                *self.mappings.entry(name).or_insert(next)
            }
            None => 0,
        };
        let number = self.function(&function);
        let line = frame.line.or(function.line).map_or(0, u64::from);
        self.numbered_location((mapping, frame.address.unwrap_or(0), number, line))
    }

    fn numbered_location(&mut self, location: (u64, u64, u64, u64)) -> u64 {
        let next = self.locations.len() as u64 + 1;
        self.length = self.length.saturating_add(ROW);
        *self.locations.entry(location).or_insert(next)
    }

    fn function(&mut self, function: &Function<'_>) -> u64 {
        let key = (
            self.text(function.name),
            self.text(function.file.unwrap_or_default()),
            function.line.map_or(0, u64::from),
        );
        let next = self.functions.len() as u64 + 1;
        *self.functions.entry(key).or_insert(next)
    }

    /// Whether it has no samples.
    pub(super) const fn is_empty(&self) -> bool {
        self.times.is_none()
    }

    /// How the markers of the profile are read.
    pub(super) const fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// Writes the entries that samples refer to, and the profile's own fields.
    pub(super) fn finish(mut self, survey: &Survey) -> Result<W, ExportError> {
        self.types(survey)?;
        for (name, id) in in_order(std::mem::take(&mut self.mappings)) {
            let mut mapping = Message::default();
            // The mapping covers the whole range because addresses are relative.
            let fields = [
                (1, id),
                (3, MAX),
                (5, name),
                (7, 1),
                (8, 1),
                (9, 1),
                (10, 1),
            ];
            fields
                .into_iter()
                .for_each(|(field, value)| mapping.number(field, value));
            self.put(field::MAPPING, &mapping)?;
        }
        for ((mapping, address, function, line), id) in
            in_order(std::mem::take(&mut self.locations))
        {
            let mut location = Message::default();
            let mut place = Message::default();
            [(1, id), (2, mapping), (3, address)]
                .into_iter()
                .for_each(|(field, n)| location.number(field, n));
            [(1, function), (2, line)]
                .into_iter()
                .for_each(|(field, n)| place.number(field, n));
            location.message(4, &place);
            self.put(field::LOCATION, &location)?;
        }
        for ((name, file, line), id) in in_order(std::mem::take(&mut self.functions)) {
            let mut function = Message::default();
            let fields = [(1, id), (2, name), (3, name), (4, file), (5, line)];
            fields
                .into_iter()
                .for_each(|(field, value)| function.number(field, value));
            self.put(field::FUNCTION, &function)?;
        }
        for (text, _) in in_order(std::mem::take(&mut self.texts)) {
            let mut table = Message::default();
            table.bytes(field::STRING_TABLE, text.as_bytes());
            self.out.write_all(table.as_bytes())?;
        }
        Ok(self.out)
    }

    fn types(&mut self, survey: &Survey) -> Result<(), ExportError> {
        for (name, unit) in [
            ("samples", "count"),
            ("wall", "nanoseconds"),
            ("cpu", "nanoseconds"),
        ] {
            let value_type = self.value_type(name, unit);
            self.put(field::SAMPLE_TYPE, &value_type)?;
        }
        let period = self.value_type("wall", "nanoseconds");
        self.put(field::PERIOD_TYPE, &period)?;
        // An imported profile has a unit of processor time, and none of it.
        let shown = if survey.meta.cpu_unit_ns().is_some() && (self.has_cpu || !self.has_wall) {
            "cpu"
        } else {
            "wall"
        };
        let default = self.text(shown);
        let [from_ns, until_ns] = self.unix_range(survey);
        let mut whole = Message::default();
        whole.number(field::TIME_NANOS, from_ns);
        whole.number(field::DURATION_NANOS, until_ns.saturating_sub(from_ns));
        whole.number(field::PERIOD, survey.meta.interval_ns().unsigned_abs());
        whole.number(field::DEFAULT_SAMPLE_TYPE, default);
        Ok(self.out.write_all(whole.as_bytes())?)
    }

    /// The first and the last instant of the samples, in nanoseconds since 1970.
    pub(super) fn unix_range(&self, survey: &Survey) -> [u64; 2] {
        let (from, to) = self.times.unwrap_or_default();
        let start_ns = survey.meta.start_time.map_or(0.0, |ms| ms * 1e6) as i64;
        [from, to].map(|ns| start_ns.saturating_add(ns).max(0).unsigned_abs())
    }

    fn value_type(&mut self, name: &str, unit: &str) -> Message {
        let mut value_type = Message::default();
        value_type.number(1, self.text(name));
        value_type.number(2, self.text(unit));
        value_type
    }
}

fn in_order<K>(numbered: HashMap<K, u64>) -> Vec<(K, u64)> {
    let mut all: Vec<_> = numbered.into_iter().collect();
    all.sort_by_key(|(_, number)| *number);
    all
}
