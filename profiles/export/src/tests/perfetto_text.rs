//! A trace of Perfetto as text, read by a decoder of its own. Every field must be in its table.

use std::fmt::Write as _;

/// How a field is read.
#[derive(Clone, Copy)]
enum Kind {
    Number,
    Signed,
    Fixed,
    Double,
    Text,
    Bytes,
    Message(&'static str),
}

use Kind::{Bytes, Double, Fixed, Message, Number, Signed, Text};

/// The messages and their fields.
#[rustfmt::skip]
const FIELDS: &[(&str, u64, &str, Kind)] = &[
    ("Trace", 1, "packet", Message("TracePacket")),
    ("TracePacket", 2, "process_tree", Message("ProcessTree")),
    ("TracePacket", 6, "clock_snapshot", Message("ClockSnapshot")),
    ("TracePacket", 8, "timestamp", Number),
    ("TracePacket", 10, "trusted_packet_sequence_id", Number),
    ("TracePacket", 11, "track_event", Message("TrackEvent")),
    ("TracePacket", 12, "interned_data", Message("InternedData")),
    ("TracePacket", 13, "sequence_flags", Number),
    ("TracePacket", 59, "trace_packet_defaults", Message("TracePacketDefaults")),
    ("TracePacket", 60, "track_descriptor", Message("TrackDescriptor")),
    ("TracePacket", 66, "perf_sample", Message("PerfSample")),
    ("TracePacket", 87, "first_packet_on_sequence", Number),
    ("ProcessTree", 1, "processes", Message("Process")),
    ("Process", 1, "pid", Number),
    ("Process", 2, "ppid", Number),
    ("Process", 3, "cmdline", Text),
    ("ClockSnapshot", 1, "clocks", Message("Clock")),
    ("ClockSnapshot", 2, "primary_trace_clock", Number),
    ("Clock", 1, "clock_id", Number),
    ("Clock", 2, "timestamp", Number),
    ("TracePacketDefaults", 12, "perf_sample_defaults", Message("PerfSampleDefaults")),
    ("TracePacketDefaults", 58, "timestamp_clock_id", Number),
    ("PerfSampleDefaults", 1, "timebase", Message("Timebase")),
    ("Timebase", 2, "frequency", Number),
    ("Timebase", 4, "counter", Number),
    ("TrackDescriptor", 1, "uuid", Number),
    ("TrackDescriptor", 2, "name", Text),
    ("TrackDescriptor", 3, "process", Message("ProcessDescriptor")),
    ("TrackDescriptor", 4, "thread", Message("ThreadDescriptor")),
    ("TrackDescriptor", 5, "parent_uuid", Number),
    ("TrackDescriptor", 8, "counter", Message("CounterDescriptor")),
    ("TrackDescriptor", 14, "description", Text),
    ("ProcessDescriptor", 1, "pid", Number),
    ("ProcessDescriptor", 2, "cmdline", Text),
    ("ProcessDescriptor", 6, "process_name", Text),
    ("ProcessDescriptor", 7, "start_timestamp_ns", Number),
    ("ProcessDescriptor", 8, "process_labels", Text),
    ("ThreadDescriptor", 1, "pid", Number),
    ("ThreadDescriptor", 2, "tid", Number),
    ("ThreadDescriptor", 5, "thread_name", Text),
    ("CounterDescriptor", 3, "unit", Number),
    ("CounterDescriptor", 6, "unit_name", Text),
    ("TrackEvent", 3, "category_iids", Number),
    ("TrackEvent", 4, "debug_annotations", Message("DebugAnnotation")),
    ("TrackEvent", 9, "type", Number),
    ("TrackEvent", 10, "name_iid", Number),
    ("TrackEvent", 11, "track_uuid", Number),
    ("TrackEvent", 22, "categories", Text),
    ("TrackEvent", 23, "name", Text),
    ("TrackEvent", 30, "counter_value", Signed),
    ("TrackEvent", 44, "double_counter_value", Double),
    ("TrackEvent", 47, "flow_ids", Fixed),
    ("TrackEvent", 48, "terminating_flow_ids", Fixed),
    ("TrackEvent", 56, "callstack_iid", Number),
    ("DebugAnnotation", 1, "name_iid", Number),
    ("DebugAnnotation", 2, "bool_value", Number),
    ("DebugAnnotation", 3, "uint_value", Number),
    ("DebugAnnotation", 4, "int_value", Signed),
    ("DebugAnnotation", 5, "double_value", Double),
    ("DebugAnnotation", 6, "string_value", Text),
    ("DebugAnnotation", 10, "name", Text),
    ("DebugAnnotation", 11, "dict_entries", Message("DebugAnnotation")),
    ("DebugAnnotation", 12, "array_values", Message("DebugAnnotation")),
    ("InternedData", 1, "event_categories", Message("InternedText")),
    ("InternedData", 2, "event_names", Message("InternedText")),
    ("InternedData", 3, "debug_annotation_names", Message("InternedText")),
    ("InternedData", 5, "function_names", Message("InternedText")),
    ("InternedData", 6, "frames", Message("Frame")),
    ("InternedData", 7, "callstacks", Message("Callstack")),
    ("InternedData", 16, "build_ids", Message("InternedBytes")),
    ("InternedData", 17, "mapping_paths", Message("InternedText")),
    ("InternedData", 18, "source_paths", Message("InternedText")),
    ("InternedData", 19, "mappings", Message("Mapping")),
    ("InternedBytes", 1, "iid", Number),
    ("InternedBytes", 2, "bytes", Bytes),
    ("InternedText", 1, "iid", Number),
    ("InternedText", 2, "text", Text),
    ("Frame", 1, "iid", Number),
    ("Frame", 2, "function_name_id", Number),
    ("Frame", 3, "mapping_id", Number),
    ("Frame", 4, "rel_pc", Number),
    ("Frame", 5, "source_path_iid", Number),
    ("Frame", 6, "line_number", Number),
    ("Callstack", 1, "iid", Number),
    ("Callstack", 2, "frame_ids", Number),
    ("Mapping", 1, "iid", Number),
    ("Mapping", 2, "build_id", Number),
    ("Mapping", 5, "end", Number),
    ("Mapping", 7, "path_string_ids", Number),
    ("PerfSample", 2, "pid", Number),
    ("PerfSample", 3, "tid", Number),
    ("PerfSample", 4, "callstack_iid", Number),
    ("PerfSample", 5, "cpu_mode", Number),
];

/// The trace as text, a line for each packet. Panics if it is not a trace, or if it has a field
/// that the table does not have.
pub(super) fn text(mut bytes: &[u8]) -> String {
    let mut text = String::new();
    while !bytes.is_empty() {
        let before = bytes;
        let (field, wire) = key(&mut bytes);
        assert_eq!((field, wire), (1, 2), "not a packet");
        let length = varint(&mut bytes) as usize;
        bytes = &bytes[length..];
        let packet = &before[..before.len() - bytes.len()];
        text.push_str(&message("Trace", packet));
        text.push('\n');
    }
    text
}

fn message(name: &str, mut bytes: &[u8]) -> String {
    let mut text = String::new();
    while !bytes.is_empty() {
        let (field, wire) = key(&mut bytes);
        let known = FIELDS
            .iter()
            .find(|known| (known.0, known.1) == (name, field));
        let (_, _, key, kind) = known.unwrap_or_else(|| panic!("{name} has no field {field}"));
        let space = if text.is_empty() { "" } else { " " };
        write!(text, "{space}{key}").unwrap();
        match (wire, kind) {
            (0, Number) => write!(text, ": {}", varint(&mut bytes)),
            (0, Signed) => write!(text, ": {}", varint(&mut bytes).cast_signed()),
            (1, Fixed) => write!(text, ": {:#x}", fixed(&mut bytes)),
            (1, Double) => write!(text, ": {:?}", f64::from_bits(fixed(&mut bytes))),
            (2, Text) => write!(
                text,
                ": {:?}",
                std::str::from_utf8(length(&mut bytes)).unwrap()
            ),
            (2, Bytes) => write!(text, ": {:02x?}", length(&mut bytes)),
            (2, Message(inner)) => write!(text, " {{ {} }}", message(inner, length(&mut bytes))),
            (wire, _) => panic!("{name}.{key} has wire type {wire}"),
        }
        .unwrap();
    }
    text
}

fn key(bytes: &mut &[u8]) -> (u64, u64) {
    let key = varint(bytes);
    (key >> 3, key & 7)
}

fn length<'b>(bytes: &mut &'b [u8]) -> &'b [u8] {
    let length = varint(bytes) as usize;
    let (inner, rest) = bytes.split_at(length);
    *bytes = rest;
    inner
}

fn fixed(bytes: &mut &[u8]) -> u64 {
    let (number, rest) = bytes.split_first_chunk().unwrap();
    *bytes = rest;
    u64::from_le_bytes(*number)
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (byte, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            break;
        }
    }
    value
}
