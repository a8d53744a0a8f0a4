//! Payload types that together use every feature of a schema.

use profiler_core::ids::ThreadId;
use profiler_core::marker::ProfilerMarker;
use profiler_core::marker::schema::{
    FieldFormat, Format, GraphColor, GraphType, Location, MarkerField, MarkerSchema, TableColumn,
};
use serde::Serialize;

/// Every format of a single value: key, format, and how the viewer shows the value in [`Formats`].
pub(crate) const FORMATS: [(&str, Format, &str); 21] = [
    ("url", Format::Url, "https://example.org/?q=\"ä\""),
    ("file_path", Format::FilePath, "/usr/share/dict/words"),
    (
        "sanitized",
        Format::SanitizedString,
        "removed before sharing",
    ),
    ("string", Format::String, "quotes \" and \\ and \u{1F980}"),
    ("unique", Format::UniqueString, "stored once"),
    ("flow", Format::FlowId, "000000000000beef"),
    ("last_flow", Format::TerminatingFlowId, "000000000000beef"),
    ("duration", Format::Duration, "1.500s"),
    ("time", Format::Time, "2.500s"),
    ("seconds", Format::Seconds, "3.500s"),
    ("milliseconds", Format::Milliseconds, "4.5ms"),
    ("microseconds", Format::Microseconds, "5.5μs"),
    ("nanoseconds", Format::Nanoseconds, "6.50ns"),
    ("bytes", Format::Bytes, "1.57MB"),
    ("percentage", Format::Percentage, "25%"),
    ("integer", Format::Integer, "-1,234,567"),
    ("decimal", Format::Decimal, "0.13"),
    ("hexadecimal", Format::Hexadecimal, "48,879"),
    ("pid", Format::Pid, "PID: 4711"),
    ("tid", Format::Tid, "TID: 4712"),
    ("list", Format::List, "one, two"),
];

/// One value of every format, and a table.
#[derive(Debug, Serialize)]
pub(crate) struct Formats {
    url: &'static str,
    file_path: &'static str,
    sanitized: &'static str,
    string: &'static str,
    unique: &'static str,
    flow: u64,
    last_flow: u64,
    duration: f64,
    time: f64,
    seconds: f64,
    milliseconds: f64,
    microseconds: f64,
    nanoseconds: f64,
    bytes: u64,
    percentage: f64,
    integer: i64,
    decimal: f64,
    hexadecimal: u64,
    pid: u32,
    tid: ThreadId,
    list: [&'static str; 2],
    rows: [(&'static str, u64); 2],
}

impl Formats {
    pub(crate) const fn new() -> Self {
        Self {
            url: FORMATS[0].2,
            file_path: FORMATS[1].2,
            sanitized: FORMATS[2].2,
            string: FORMATS[3].2,
            unique: FORMATS[4].2,
            flow: 0xbeef,
            last_flow: 0xbeef,
            duration: 1500.0,
            time: 2500.0,
            seconds: 3500.0,
            milliseconds: 4.5,
            microseconds: 5.5,
            nanoseconds: 6.5,
            bytes: 3 << 19,
            percentage: 0.25,
            integer: -1_234_567,
            decimal: 0.125,
            hexadecimal: 0xbeef,
            pid: 4711,
            tid: ThreadId::new(4712),
            list: ["one", "two"],
            rows: [("first", 1024), ("second", 2048)],
        }
    }
}

impl ProfilerMarker for Formats {
    const TYPE_NAME: &'static str = "Formats";

    fn schema() -> MarkerSchema {
        let columns = [
            TableColumn::new("Name", Format::String),
            TableColumn::new("Size", Format::Bytes),
        ];
        let schema = MarkerSchema::in_chart_and_table(Self::TYPE_NAME);
        let schema = FORMATS.iter().fold(schema, |schema, (key, format, _)| {
            schema.key_format(*key, *format)
        });
        schema.key_label_format("rows", "A table", FieldFormat::table(columns))
    }
}

/// Every location, and the name of the type that is shown there.
pub(crate) const PLACES: [(&str, Location); 8] = [
    ("InMarkerChart", Location::MarkerChart),
    ("InMarkerTable", Location::MarkerTable),
    ("InTimelineOverview", Location::TimelineOverview),
    ("InTimelineMemory", Location::TimelineMemory),
    ("InTimelineIpc", Location::TimelineIpc),
    ("InTimelineFileIo", Location::TimelineFileIo),
    ("InTimelineNetwork", Location::TimelineNetwork),
    ("InStackChart", Location::StackChart),
];

/// A type that is shown at one location only.
#[derive(Debug, Serialize)]
pub(crate) struct At<const PLACE: usize> {
    pub(crate) number: u32,
}

impl<const PLACE: usize> ProfilerMarker for At<PLACE> {
    const TYPE_NAME: &'static str = PLACES[PLACE].0;

    fn schema() -> MarkerSchema {
        MarkerSchema::new(Self::TYPE_NAME, [PLACES[PLACE].1]).key_label_format(
            "number",
            "Number",
            Format::Integer,
        )
    }
}

/// A different label at every location, a hidden field, a field that is not searched, an optional
/// field, and a static text.
#[derive(Debug, Serialize)]
pub(crate) struct Labels {
    pub(crate) what: &'static str,
    pub(crate) good: bool,
    pub(crate) note: Option<&'static str>,
    pub(crate) secret: u32,
}

impl ProfilerMarker for Labels {
    const TYPE_NAME: &'static str = "Labels";

    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table(Self::TYPE_NAME)
            .chart_label("chart: {marker.data.what}")
            .tooltip_label("tooltip: {marker.name}, {marker.data.what}")
            .table_label("table: {marker.data.what} {marker.data.secret}")
            .key_label_format("what", "What", Format::String)
            .field(
                MarkerField::new("good", Format::String)
                    .label("Good")
                    .not_searchable(),
            )
            .key_label_format("note", "Note", Format::String)
            .field(MarkerField::new("secret", Format::Integer).hidden())
            .static_label_value("Description", "A marker with a label for every place")
    }
}

/// Graphs of every kind, a colour per marker, and markers that nest.
#[derive(Debug, Serialize)]
pub(crate) struct Graphs {
    pub(crate) bar: u32,
    pub(crate) line: f64,
    pub(crate) filled: i32,
    pub(crate) color: &'static str,
}

impl ProfilerMarker for Graphs {
    const TYPE_NAME: &'static str = "Graphs";

    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table(Self::TYPE_NAME)
            .table_label("{marker.data.color}: {marker.data.bar}")
            .key_label_format("bar", "Bar", Format::Integer)
            .key_label_format("line", "Line", Format::Decimal)
            .key_label_format("filled", "Filled", Format::Integer)
            .key_label_format("color", "Colour", Format::String)
            .graph("bar", GraphType::Bar, Some(GraphColor::Teal))
            .graph("line", GraphType::Line, None)
            .graph("filled", GraphType::LineFilled, Some(GraphColor::Magenta))
            .color_field("color")
            .stack_based()
    }
}

/// A type whose label shows its category.
#[derive(Debug, Serialize)]
pub(crate) struct InCategory {
    pub(crate) subcategory: u16,
}

impl ProfilerMarker for InCategory {
    const TYPE_NAME: &'static str = "InCategory";

    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table(Self::TYPE_NAME)
            .table_label("{marker.category}")
            .key_label_format("subcategory", "Subcategory", Format::Integer)
    }
}
