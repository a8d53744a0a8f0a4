//! The types of markers that show levels in a format whose counters viewers draw as rates.

use super::counters::MEMORY;
use profiler_core::internal::reader::CounterDefinition;
use profiler_core::marker::schema::{Format, GraphColor, GraphType, MarkerSchema};

/// The unit of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelUnit {
    /// Bytes of memory.
    Bytes,
    /// Any number.
    Number,
}

impl LevelUnit {
    /// The unit of a counter.
    pub fn of(counter: &CounterDefinition) -> Self {
        if counter.category == MEMORY {
            Self::Bytes
        } else {
            Self::Number
        }
    }

    /// The type of its markers.
    pub const fn type_name(self) -> &'static str {
        match self {
            Self::Bytes => "MemoryLevel",
            Self::Number => "Level",
        }
    }

    fn schema(self) -> MarkerSchema {
        let (format, color) = match self {
            Self::Bytes => (Format::Bytes, GraphColor::Orange),
            Self::Number => (Format::Integer, GraphColor::Grey),
        };
        MarkerSchema::new(self.type_name(), [])
            .table_label("{marker.data.value}")
            .tooltip_label("{marker.name}: {marker.data.value}")
            .key_label_format("value", "Value", format)
            .graph("value", GraphType::LineFilled, Some(color))
    }
}

/// How viewers show these markers: as graphs only.
pub(super) fn schemas() -> [MarkerSchema; 2] {
    [LevelUnit::Bytes.schema(), LevelUnit::Number.schema()]
}
