//! Fuzzes the decoding of a marker's payload, including the items of its lists.

#![no_main]

use libfuzzer_sys::fuzz_target;
use profiler_core::internal::payload::{FieldValue, PayloadReader};

fn count(value: FieldValue<'_>) -> usize {
    match value {
        FieldValue::List(items) => 1 + items.map(count).sum::<usize>(),
        _ => 1,
    }
}

fuzz_target!(|data: &[u8]| {
    let values: usize = PayloadReader::new(data).flatten().map(count).sum();
    assert!(values <= data.len());
});
