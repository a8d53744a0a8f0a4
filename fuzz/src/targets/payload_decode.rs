//! Fuzzes the decoding of a marker's payload, including the items of its lists.

use profiler_core::internal::payload::{FieldValue, PayloadReader};

fn count(value: FieldValue<'_>) -> usize {
    match value {
        FieldValue::List(items) => 1 + items.map(count).sum::<usize>(),
        _ => 1,
    }
}

/// Checks one input.
pub(crate) fn check_input(data: &[u8]) {
    let values: usize = PayloadReader::new(data).flatten().map(count).sum();
    assert!(values <= data.len());
}
