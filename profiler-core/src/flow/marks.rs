//! The markers of flows, and flows as fields of other markers.
//!
//! Made by [`crate::flow!`]. A marker has one of three types, or a type of its own if it has
//! fields: then the mark is the first field. Invariant: only the end has the format that ends a
//! flow in viewers.

use serde_core::ser::{Serialize, SerializeStruct, Serializer};

use super::Flow;
use crate::marker_type::ProfilerMarker;
use crate::marker_value::{FieldSink, MarkerValue};
use crate::schema::{Format, MarkerSchema};

impl MarkerValue for Flow {
    const FORMAT: Format = Format::FlowId;

    #[inline]
    fn write<S: FieldSink>(&self, sink: &mut S) -> Result<(), S::Error> {
        sink.put_u64(self.number().get())
    }
}

macro_rules! marks {
    ($($(#[$doc:meta])* $mark:ident, $format:ident, $label:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $mark(Flow);

        impl $mark {
            /// The mark of this flow.
            #[inline]
            pub const fn new(flow: Flow) -> Self {
                Self(flow)
            }
        }

        impl Serialize for $mark {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut mark = serializer.serialize_struct(Self::TYPE_NAME, 1)?;
                mark.serialize_field("flow", &self.0.number().get())?;
                mark.end()
            }
        }

        impl ProfilerMarker for $mark {
            const TYPE_NAME: &'static str = stringify!($mark);
            const IS_OF_PROFILER: bool = true;

            fn schema() -> MarkerSchema {
                MarkerSchema::in_chart_and_table(Self::TYPE_NAME)
                    .all_labels($label)
                    .key_label_format("flow", "Flow", Format::$format)
            }
        }

        impl MarkerValue for $mark {
            const FORMAT: Format = Format::$format;

            #[inline]
            fn write<S: FieldSink>(&self, sink: &mut S) -> Result<(), S::Error> {
                self.0.write(sink)
            }
        }
    )*};
}

marks! {
    /// The beginning of a flow.
    FlowBegin, FlowId, "{marker.name} (begin)";
    /// A place that a flow passes.
    FlowStep, FlowId, "{marker.name} (step)";
    /// The end of a flow.
    FlowEnd, TerminatingFlowId, "{marker.name} (end)";
}
