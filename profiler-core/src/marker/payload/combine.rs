//! Combines the payloads of the start and the end of an interval.
//!
//! Used by profile writers. Invariant: like the decoder, this copes with any bytes, and takes the
//! values before the first one that is malformed.

use std::borrow::Cow;

use super::Tag;
use super::read::PayloadReader;

/// The payload of an interval whose start and end have these payloads of one type: of each field
/// the value of the end or, if it has none, that of the start. Borrows from `start` if the end has
/// at most one value, which is the number that both have in common.
pub fn combined<'a>(start: &'a [u8], end: &[u8]) -> Cow<'a, [u8]> {
    let values = |payload| PayloadReader::new(payload).encoded();
    if values(end).filter(has_value).count() <= 1 {
        return Cow::Borrowed(start);
    }
    let (mut of_start, mut of_end) = (values(start), values(end));
    let mut payload = Vec::with_capacity(start.len().saturating_add(end.len()));
    loop {
        let value = match (of_start.next(), of_end.next()) {
            (None, None) => return Cow::Owned(payload),
            (_, Some(last)) if has_value(&last) => last,
            (Some(first), _) => first,
            (None, Some(last)) => last,
        };
        payload.extend_from_slice(value);
    }
}

/// Whether these bytes are those of a value, and not of a missing one.
fn has_value(encoded: &&[u8]) -> bool {
    encoded.first() != Some(&(Tag::None as u8))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use serde::Serialize;

    use super::*;
    use crate::marker::payload::{FieldValue, encode};

    #[derive(Serialize)]
    struct Fields<'a> {
        span: u64,
        path: Option<&'a str>,
        polls: Option<u64>,
        sizes: Option<[u8; 3]>,
    }

    const START: Fields<'static> = Fields {
        span: 7,
        path: Some("/index.html"),
        polls: None,
        sizes: Some([1, 2, 3]),
    };

    fn encoded(fields: &Fields<'_>) -> Vec<u8> {
        let mut room = [0; 200];
        let len = encode(fields, &mut room).unwrap();
        room[..len].to_vec()
    }

    #[test]
    fn the_values_of_the_end_replace_those_of_the_start() {
        let end = Fields {
            polls: Some(70_000),
            path: None,
            sizes: None,
            ..START
        };
        let expected = Fields {
            polls: Some(70_000),
            ..START
        };
        let combined = combined(&encoded(&START), &encoded(&end)).into_owned();
        assert_eq!(combined, encoded(&expected));
        let number = PayloadReader::new(&combined).next();
        assert_eq!(number, Some(Ok(FieldValue::U64(7))));
    }

    #[test]
    fn an_end_with_nothing_but_its_number_leaves_the_start_as_it_is() {
        let start = encoded(&START);
        for end in [&[][..], &[Tag::U64 as u8, 7], &[Tag::U64 as u8, 7, 0, 0]] {
            assert!(matches!(combined(&start, end), Cow::Borrowed(same) if same == start));
        }
    }

    #[test]
    fn bytes_behind_a_malformed_value_are_left_out() {
        let start = encoded(&START);
        let damaged = [
            &[Tag::U64 as u8, 9, Tag::Str as u8, 1, b'a', 99][..],
            &start,
        ]
        .concat();
        let combined = combined(&start, &damaged).into_owned();
        let values: Vec<_> = PayloadReader::new(&combined).map(Result::unwrap).collect();
        assert_eq!(values[..2], [FieldValue::U64(9), FieldValue::Str("a")]);
        assert_eq!(values.len(), 4, "the others are those of the start");
    }
}
