//! The entries of a wild child: numbered, with a checksum, of many sizes.
//!
//! Recorded by [`super::wild`], and checked by [`super::found`] in the bytes of a pool and in a
//! profile. The checksum covers the length of the filler, and the filler is compared byte by byte,
//! so an entry that is cut, overwritten or mixed with another is detected.

use profiler_core::internal::payload::{FieldValue, PayloadReader};
use profiler_core::marker;
use profiler_core::marker::schema::{Format, MarkerSchema};
use profiler_core::marker::{MarkerOptions, ProfilerMarker, category};
use serde::Serialize;
use serde_json::Value;

use crate::marks::check_of;

/// Name of the markers.
pub const NAME: &str = "wild";
/// The longest filler. An entry of this size gets its own chunk.
const LONGEST: usize = 300_000;
/// Letters that repeat with [`PERIOD`].
static PATTERN: [u8; LONGEST + PERIOD] = pattern();
/// The period of [`PATTERN`]. No size class is a multiple of it.
const PERIOD: usize = 251;

/// Payload of a wild child's marker.
#[derive(Debug, Serialize)]
struct Wild<'a> {
    writer: u32,
    number: u64,
    check: u64,
    filler: &'a str,
}

impl ProfilerMarker for Wild<'_> {
    const TYPE_NAME: &'static str = "Wild";

    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table(Self::TYPE_NAME)
            .key_format("writer", Format::Integer)
            .key_format("number", Format::Integer)
            .key_format("check", Format::Integer)
            .key_format("filler", Format::String)
    }
}

const fn pattern() -> [u8; LONGEST + PERIOD] {
    let mut letters = [0; LONGEST + PERIOD];
    let mut at = 0;
    while at < letters.len() {
        letters[at] = b'a' + ((at % PERIOD) % 26) as u8;
        at += 1;
    }
    letters
}

/// Returns the length of the filler of this entry. Most are short. With `big`, some fill a page or
/// a chunk.
fn length_of(writer: u32, number: u64, big: bool) -> usize {
    let draw = check_of(writer, number);
    let below = |most: u64| (draw >> 8) as usize % most as usize;
    match draw % 1024 {
        0 if big => 100_000 + below(200_000),
        1..=8 if big => 3_000 + below(9_000),
        _ => below(48),
    }
}

fn filler_of(number: u64, length: usize) -> &'static [u8] {
    let start = (number % PERIOD as u64) as usize;
    PATTERN.get(start..start + length).unwrap_or_default()
}

fn checksum(writer: u32, number: u64, length: usize) -> u64 {
    check_of(writer, number) ^ length as u64
}

/// Records the entry with this number.
pub fn record(writer: u32, number: u64, big: bool) {
    let length = length_of(writer, number, big);
    let filler = std::str::from_utf8(filler_of(number, length)).unwrap_or_default();
    let payload = Wild {
        writer,
        number,
        check: checksum(writer, number, length),
        filler,
    };
    marker!("wild", &category::TEST, MarkerOptions::default(), &payload);
}

/// Returns writer and number if every byte is as recorded.
fn whole(writer: u64, number: u64, check: u64, filler: &[u8]) -> Option<(u32, u64)> {
    let writer = u32::try_from(writer).ok()?;
    let sound = check == checksum(writer, number, filler.len())
        && filler == filler_of(number, filler.len());
    sound.then_some((writer, number))
}

/// Returns writer and number of a payload from a pool, or `None` if the payload is torn.
pub(super) fn from_payload(payload: &[u8]) -> Option<(u32, u64)> {
    let fields: Vec<FieldValue<'_>> = PayloadReader::new(payload).collect::<Result<_, _>>().ok()?;
    match fields[..] {
        [
            FieldValue::U64(writer),
            FieldValue::U64(number),
            FieldValue::U64(check),
            FieldValue::Str(filler),
        ] => whole(writer, number, check, filler.as_bytes()),
        _ => None,
    }
}

/// Returns writer and number of a marker from a profile, or `None` if the marker is torn.
pub(super) fn from_json(data: &Value) -> Option<(u32, u64)> {
    let number = |name: &str| data[name].as_u64();
    let filler = data["filler"].as_str()?.as_bytes();
    whole(
        number("writer")?,
        number("number")?,
        number("check")?,
        filler,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wrong_letter_is_a_torn_entry() {
        let json = |filler: &str| {
            let check = checksum(3, 700, 4);
            serde_json::json!({ "writer": 3, "number": 700, "check": check, "filler": filler })
        };
        let right = std::str::from_utf8(filler_of(700, 4)).expect("letters");
        assert_eq!(from_json(&json(right)), Some((3, 700)));
        assert_eq!(from_json(&json(&right[..3])), None);
        assert_eq!(from_json(&json("aaaa")), None);
    }

    #[test]
    fn entries_of_all_sizes_occur() {
        let lengths: Vec<usize> = (0..20_000)
            .map(|number| length_of(1, number, true))
            .collect();
        assert!(lengths.iter().any(|length| *length > 100_000));
        assert!(
            lengths
                .iter()
                .filter(|length| (3_000..12_000).contains(*length))
                .count()
                > 50
        );
        assert!(lengths.iter().filter(|length| **length < 48).count() > 19_000);
        assert!((0..20_000).all(|number| length_of(1, number, false) < 48));
    }
}
