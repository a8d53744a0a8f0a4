//! Flows in serde: a text in formats for humans, a number in the others.

use std::fmt;
use std::num::NonZeroU64;

use serde_core::de::{Error, Unexpected, Visitor};
use serde_core::{Deserialize, Deserializer, Serialize, Serializer};

use super::Flow;

impl Serialize for Flow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match serializer.is_human_readable() {
            true => serializer.collect_str(self),
            false => serializer.serialize_u64(self.0.get()),
        }
    }
}

impl<'de> Deserialize<'de> for Flow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.is_human_readable() {
            true => deserializer.deserialize_str(FlowText),
            false => deserializer.deserialize_u64(FlowNumber),
        }
    }
}

/// Reads the text of a flow.
struct FlowText;

impl Visitor<'_> for FlowText {
    type Value = Flow;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("16 hexadecimal digits that are not all zero")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Flow, E> {
        let wrong = |_| E::invalid_value(Unexpected::Str(text), &self);
        text.parse().map_err(wrong)
    }
}

/// Reads the number of a flow.
struct FlowNumber;

impl Visitor<'_> for FlowNumber {
    type Value = Flow;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a number of 64 bits that is not zero")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Flow, E> {
        let wrong = || E::invalid_value(Unexpected::Unsigned(number), &self);
        NonZeroU64::new(number).map(Flow).ok_or_else(wrong)
    }
}
