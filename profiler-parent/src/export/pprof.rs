//! pprof: Google's protocol buffer, compressed. A sample for each stack of each thread, with
//! process and thread as labels.
//!
//! Called by [`super::export`]. A sample has three values: number of samples, time (running or
//! waiting), processor time. Fields may come in any order, so samples are written per thread, and
//! the entries that they refer to at the end. A library is a mapping; its addresses are relative to
//! it.

use std::collections::HashMap;
use std::io::{BufWriter, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::ExportError;
use super::bounded::BoundedWriter;
use super::proto::Message;
use super::recording::{Recording, Sink, Thread, Totals};
use super::tree::What;
use crate::output::ProfileFile;
use crate::reading::{Frame, FrameId, Function, NodeId, Survey, Tables};

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
    let mut file = ProfileFile::create(to)?;
    let by_name = to.extension().is_some_and(|extension| extension == "gz");
    let totals = match by_name {
        true => write_to(recording, BufWriter::new(&mut file))?.0,
        false => {
            let packed = GzEncoder::new(BufWriter::new(&mut file), Compression::default());
            let (totals, packed) = write_to(recording, packed)?;
            packed.into_inner().finish()?.flush()?;
            totals
        }
    };
    file.commit()?;
    Ok(totals)
}

fn write_to<W: Write>(
    recording: &Recording,
    out: W,
) -> Result<(Totals, BoundedWriter<W>), ExportError> {
    let mut profile = Profile::new(BoundedWriter::new(out, recording.most_bytes()));
    let totals = recording.threads(&mut profile)?;
    Ok((totals, profile.finish(recording.survey())?))
}

/// Functions or mappings with their numbers, which start at 1.
type Numbered<K> = HashMap<K, u64>;

struct Profile<W> {
    out: W,
    texts: HashMap<String, u64>,
    /// By name, file and first line.
    functions: Numbered<(u64, u64, u64)>,
    mappings: Numbered<u64>,
    /// By mapping, address, function and line.
    locations: Numbered<(u64, u64, u64, u64)>,
    /// Start of the first slice and end of the last, in nanoseconds since the session's start.
    times: Option<(i64, i64)>,
}

/// The largest number that is written: readers use signed integers.
const MOST: u64 = i64::MAX.unsigned_abs();

/// The sums over the samples of one stack.
#[derive(Clone, Copy, Debug, Default)]
struct Values {
    samples: u64,
    wall_ns: u64,
    cpu_ns: u64,
}

impl<W: Write> Sink for Profile<W> {
    fn thread(&mut self, thread: &Thread<'_>, _: &Survey) -> Result<(), ExportError> {
        let mut order: Vec<Option<NodeId>> = Vec::new();
        let mut stacks: HashMap<Option<NodeId>, Values> = HashMap::new();
        for slice in thread.slices.iter().filter(|slice| slice.is_sample) {
            let values = stacks.entry(slice.stack).or_insert_with(|| {
                order.push(slice.stack);
                Values::default()
            });
            values.samples += 1;
            values.wall_ns += slice.length();
            values.cpu_ns = values.cpu_ns.saturating_add(slice.cpu).min(MOST);
        }
        if let (Some(first), Some(last)) = (thread.slices.first(), thread.slices.last()) {
            let (from, to) = self.times.unwrap_or((first.start, last.end));
            self.times = Some((from.min(first.start), to.max(last.end)));
        }
        let labels = self.labels(thread);
        let mut known = HashMap::new();
        for stack in order {
            let values = stacks.get(&stack).copied().unwrap_or_default();
            let locations = self.stack(thread.tables, stack, &mut known);
            let mut sample = Message::default();
            sample.numbers(1, locations);
            sample.numbers(2, [values.samples, values.wall_ns, values.cpu_ns]);
            labels.iter().for_each(|label| sample.message(3, label));
            self.put(field::SAMPLE, &sample)?;
        }
        Ok(())
    }
}

impl<W: Write> Profile<W> {
    fn new(out: W) -> Self {
        let texts = HashMap::from([(String::new(), 0)]);
        let functions = HashMap::new();
        let mappings = HashMap::new();
        let locations = HashMap::new();
        Self {
            out,
            texts,
            functions,
            mappings,
            locations,
            times: None,
        }
    }

    fn put(&mut self, field: u64, message: &Message) -> std::io::Result<()> {
        let mut whole = Message::default();
        whole.message(field, message);
        self.out.write_all(&whole.take())
    }

    fn text(&mut self, text: &str) -> u64 {
        if let Some(known) = self.texts.get(text) {
            return *known;
        }
        let next = self.texts.len() as u64;
        self.texts.insert(text.to_owned(), next);
        next
    }

    fn labels(&mut self, thread: &Thread<'_>) -> Vec<Message> {
        let texts = [
            ("process", thread.process),
            ("pid", thread.pid),
            ("thread", thread.name),
        ];
        let mut labels: Vec<Message> = Vec::new();
        for (key, value) in texts {
            let mut label = Message::default();
            label.number(1, self.text(key));
            label.number(2, self.text(value));
            labels.push(label);
        }
        let mut tid = Message::default();
        tid.number(1, self.text("tid"));
        tid.number(3, thread.tid);
        labels.push(tid);
        labels
    }

    /// The locations of a stack, innermost first.
    fn stack(
        &mut self,
        tables: &Tables,
        stack: Option<NodeId>,
        known: &mut HashMap<FrameId, u64>,
    ) -> Vec<u64> {
        let frames = stack.into_iter().flat_map(|stack| tables.stack(stack));
        let mut locations: Vec<u64> = Vec::new();
        for (id, frame) in frames {
            let location = known.get(&id).copied();
            locations.push(location.unwrap_or_else(|| self.location(tables, frame)));
            locations.last().map(|location| known.insert(id, *location));
        }
        if locations.is_empty() {
            let name = What::Program.special().unwrap_or_default();
            let function = self.function(&Function {
                name,
                ..Function::default()
            });
            locations.push(self.numbered_location((0, 0, function, 0)));
        }
        locations
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

    /// Writes the entries that samples refer to, and the profile's own fields.
    fn finish(mut self, survey: &Survey) -> Result<W, ExportError> {
        self.types(survey)?;
        for (name, id) in in_order(std::mem::take(&mut self.mappings)) {
            let mut mapping = Message::default();
            // The mapping covers the whole range because addresses are relative.
            let fields = [
                (1, id),
                (3, MOST),
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
            self.out.write_all(&table.take())?;
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
        let shown = if survey.meta.cpu_unit_ns().is_some() {
            "cpu"
        } else {
            "wall"
        };
        let default = self.text(shown);
        let (from, to) = self.times.unwrap_or_default();
        let start_ns = survey.meta.start_time.map_or(0.0, |ms| ms * 1e6);
        let mut whole = Message::default();
        whole.number(
            field::TIME_NANOS,
            (start_ns as i64).saturating_add(from).max(0).unsigned_abs(),
        );
        whole.number(
            field::DURATION_NANOS,
            to.saturating_sub(from).unsigned_abs(),
        );
        whole.number(field::PERIOD, survey.meta.interval_ns().unsigned_abs());
        whole.number(field::DEFAULT_SAMPLE_TYPE, default);
        Ok(self.out.write_all(&whole.take())?)
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
