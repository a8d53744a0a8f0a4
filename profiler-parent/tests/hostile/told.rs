//! What an observer gets of a marker is small, whatever the bytes of the marker are.

use profiler_parent::core::internal::entry::Entry;
use profiler_parent::core::internal::reader::Followed;
use profiler_parent::observe::{MarkerDecoder, Value};

/// Values of a payload, names and keys, and texts of a payload: the bounds that `observe::decode` states.
const MOST_VALUES: usize = 256;
const MOST_NAME: usize = 1024;
const MOST_BYTES: usize = 16 << 10;

/// Checks what an observer gets of an entry. Returns whether it is a marker.
pub(crate) fn check(decoder: &mut MarkerDecoder, one: &Followed<'_>) -> bool {
    let Entry::Marker(marker) = &one.entry else { return false };
    let decoded = decoder.decode(marker, one.definitions);
    assert!(decoded.name.len() <= MOST_NAME && decoded.category.len() <= MOST_NAME);
    assert!(decoded.group.is_none_or(|group| group.len() <= MOST_NAME));
    assert!(decoded.fields.iter().all(|field| field.key.len() <= MOST_NAME));
    assert!(decoded.flows.len() <= decoded.fields.len());
    let (mut values, mut bytes) = (0, 0);
    decoded.fields.iter().for_each(|field| count(&field.value, &mut values, &mut bytes));
    assert!(values <= MOST_VALUES && bytes <= MOST_BYTES, "{values} values, {bytes} bytes");
    assert!(decoded.cut || bytes <= marker.payload.len(), "no more than there was");
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
