//! Properties of decoded markers: what an observer gets of a marker is bounded for any bytes.
//!
//! Used by `foreign_pools` and the fuzz target `groups_and_follow`.

use profiler_parent::core::internal::entry::Entry;
use profiler_parent::core::internal::reader::Followed;
use profiler_parent::observe::{MarkerDecoder, Value};

/// The bounds that `observe::decode` states: values of a payload, bytes of a name or key, and bytes
/// of the texts of a payload.
const MAX_VALUES: usize = 256;
const MAX_NAME: usize = 1024;
const MAX_BYTES: usize = 16 << 10;

/// Checks what an observer gets of an entry. Returns whether the entry is a marker.
pub(crate) fn check(decoder: &mut MarkerDecoder, found: &Followed<'_>) -> bool {
    let Entry::Marker(marker) = &found.entry else {
        return false;
    };
    let decoded = decoder.decode(marker, found.definitions);
    assert!(decoded.name.len() <= MAX_NAME && decoded.category.len() <= MAX_NAME);
    assert!(decoded.group.is_none_or(|group| group.len() <= MAX_NAME));
    assert!(
        decoded
            .fields
            .iter()
            .all(|field| field.key.len() <= MAX_NAME)
    );
    assert!(decoded.flows.len() <= decoded.fields.len());
    let mut values = 0;
    let mut bytes = 0;
    decoded
        .fields
        .iter()
        .for_each(|field| count(&field.value, &mut values, &mut bytes));
    assert!(
        values <= MAX_VALUES && bytes <= MAX_BYTES,
        "{values} values, {bytes} bytes"
    );
    assert!(
        decoded.cut || bytes <= marker.payload.len(),
        "the texts are longer than the payload"
    );
    true
}

fn count(value: &Value, values: &mut usize, bytes: &mut usize) {
    *values += 1;
    match value {
        Value::Text(text) => *bytes += text.len(),
        Value::List(items) => items.iter().for_each(|item| count(item, values, bytes)),
        _ => {}
    }
}
