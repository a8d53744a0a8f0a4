//! Which metric a counter of a profile is.
//!
//! Used by [`super::metrics`]. Names and units follow OpenTelemetry's conventions where there are
//! any. Sums are cumulative from the first point in the profile: a later batch begins again at 0
//! with a later start, which engines read as a reset of the counter.

use profiler_reader::{CounterSeries, Meta};

/// How the points of a metric are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// A sum that only grows.
    Sum,
    /// A sum that also shrinks: an amount in use.
    UpDown,
    /// A value that is not added up over processes.
    Gauge,
}

/// A metric.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Series {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) unit: String,
    pub(super) shape: Shape,
    /// The values of the profile that are one unit. A division by a power of ten is exact where a
    /// product with its reciprocal is not.
    pub(super) per_unit: f64,
    /// The attribute that tells its counters apart.
    pub(super) attribute: Option<&'static str>,
}

impl Series {
    /// The metric with the values of a counter.
    pub(super) fn of(counter: &CounterSeries, meta: &Meta) -> Self {
        match (counter.category.as_str(), counter.name.as_str()) {
            ("CPU", "processCPU") => Self {
                name: "process.cpu.time",
                description: "Processor time of the process",
                unit: "s".to_owned(),
                shape: Shape::Sum,
                per_unit: 1e9 / meta.cpu_unit_ns().unwrap_or(1.0),
                attribute: None,
            },
            ("Memory", "Resident memory") => Self {
                name: "process.memory.usage",
                description: "Resident memory of the process",
                unit: "By".to_owned(),
                shape: Shape::UpDown,
                per_unit: 1.0,
                attribute: None,
            },
            ("Memory", _) => Self {
                name: "profiler.memory",
                description: "Memory that a counter of the program counts",
                unit: "By".to_owned(),
                shape: Shape::UpDown,
                per_unit: 1.0,
                attribute: Some("counter"),
            },
            ("Bandwidth", _) => Self {
                name: "profiler.io",
                description: "Bytes that a counter of the program counts",
                unit: "By".to_owned(),
                shape: Shape::Sum,
                per_unit: 1.0,
                attribute: Some("counter"),
            },
            ("Group", _) => Self {
                name: "profiler.group.time",
                description: "Time in a group",
                unit: "s".to_owned(),
                shape: Shape::Sum,
                per_unit: 1e3,
                attribute: Some("group"),
            },
            _ => Self {
                name: "profiler.counter",
                description: "The value of a counter of the program",
                unit: counter.unit.clone().unwrap_or_default(),
                shape: Shape::Gauge,
                per_unit: 1.0,
                attribute: Some("counter"),
            },
        }
    }

    /// The metric with the number of entries into a group.
    pub(super) fn entries_of(counter: &CounterSeries) -> Option<Self> {
        (counter.category == "Group").then(|| Self {
            name: "profiler.group.entries",
            description: "Entries into a group",
            unit: "{entry}".to_owned(),
            shape: Shape::Sum,
            per_unit: 1.0,
            attribute: Some("group"),
        })
    }
}
