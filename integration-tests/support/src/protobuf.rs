//! Reads protocol buffers according to their specification.
//!
//! Used by the tests of exports. A message that is not well-formed ends the test.

/// A field of a message, with the field's number.
#[derive(Clone, Copy, Debug)]
pub enum Field<'b> {
    /// A number.
    Number(u64, u64),
    /// A text, bytes, a message or a packed list.
    Bytes(u64, &'b [u8]),
}

/// The fields of a message. A number of eight bytes is a number, too.
///
/// # Panics
/// If the message is not well-formed.
pub fn fields(mut bytes: &[u8]) -> Vec<Field<'_>> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        all.push(match key & 7 {
            0 => Field::Number(key >> 3, varint(&mut bytes)),
            1 => {
                let (eight, rest) = bytes.split_first_chunk().expect("eight bytes");
                bytes = rest;
                Field::Number(key >> 3, u64::from_le_bytes(*eight))
            }
            2 => {
                let length = varint(&mut bytes);
                let (inner, rest) = bytes.split_at(usize::try_from(length).expect("a length"));
                bytes = rest;
                Field::Bytes(key >> 3, inner)
            }
            other => panic!("wire type {other}"),
        });
    }
    all
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().expect("a whole number");
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return value;
        }
    }
    panic!("a number of more than 64 bits");
}

/// The numbers of a packed list.
///
/// # Panics
/// If the list is not well-formed.
pub fn packed(mut bytes: &[u8]) -> Vec<u64> {
    let mut values = Vec::new();
    while !bytes.is_empty() {
        values.push(varint(&mut bytes));
    }
    values
}
