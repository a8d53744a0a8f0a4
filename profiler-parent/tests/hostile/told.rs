//! What holds for all that an observer is told of a marker, whatever its bytes: it is small.

use profiler_parent::core::entry::Entry;
use profiler_parent::core::reader::Followed;
use profiler_parent::observe::{Teller, Value};

/// Values of a payload, names and keys, and texts of a payload: the bounds that `observe::decode` states.
const MOST_VALUES: usize = 256;
const MOST_NAME: usize = 1024;
const MOST_BYTES: usize = 16 << 10;

/// Checks what is told of an entry; says whether it is a marker.
pub(crate) fn check(teller: &mut Teller, one: &Followed<'_>) -> bool {
    let Entry::Marker(marker) = &one.entry else { return false };
    let told = teller.tell(marker, one.definitions);
    assert!(told.name.len() <= MOST_NAME && told.category.len() <= MOST_NAME);
    assert!(told.group.is_none_or(|group| group.len() <= MOST_NAME));
    assert!(told.fields.iter().all(|field| field.key.len() <= MOST_NAME));
    assert!(told.flows.len() <= told.fields.len());
    let (mut values, mut bytes) = (0, 0);
    told.fields.iter().for_each(|field| count(&field.value, &mut values, &mut bytes));
    assert!(values <= MOST_VALUES && bytes <= MOST_BYTES, "{values} values, {bytes} bytes");
    assert!(told.cut || bytes <= marker.payload.len(), "no more than there was");
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
