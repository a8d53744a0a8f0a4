//! The part of the protocol buffers' wire format that pprof, Perfetto and OTLP need: numbers,
//! texts, nested messages.
//!
//! Used by [`super::pprof`], [`super::perfetto`] and [`super::otlp`]. A message is built in memory,
//! so it must be small; a whole profile or trace is a sequence of messages.

/// A message under construction.
#[derive(Clone, Debug, Default)]
pub(super) struct Message(Vec<u8>);

const VARINT: u64 = 0;
const FIXED: u64 = 1;
const BYTES: u64 = 2;
const FIXED_SHORT: u64 = 5;

impl Message {
    /// Adds a number. 0 is the default and is not written.
    pub(super) fn number(&mut self, field: u64, value: u64) {
        if value != 0 {
            self.varint(field << 3 | VARINT);
            self.varint(value);
        }
    }

    /// Adds a number, also 0: for a field whose presence matters, and for one of a choice.
    pub(super) fn any_number(&mut self, field: u64, value: u64) {
        self.varint(field << 3 | VARINT);
        self.varint(value);
    }

    /// Adds a number with a sign (`int64`), also 0.
    pub(super) fn signed(&mut self, field: u64, value: i64) {
        self.any_number(field, value.cast_unsigned());
    }

    /// Adds a number of eight bytes (`fixed64`), also 0.
    pub(super) fn fixed(&mut self, field: u64, value: u64) {
        self.varint(field << 3 | FIXED);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Adds a number of four bytes (`fixed32`), also 0.
    pub(super) fn fixed_short(&mut self, field: u64, value: u32) {
        self.varint(field << 3 | FIXED_SHORT);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Adds a number with a fraction (`double`), also 0.
    pub(super) fn double(&mut self, field: u64, value: f64) {
        self.fixed(field, value.to_bits());
    }

    /// Adds text or bytes, also empty ones.
    pub(super) fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | BYTES);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Adds a nested message.
    pub(super) fn message(&mut self, field: u64, message: &Self) {
        self.bytes(field, &message.0);
    }

    /// Adds a packed list of numbers.
    pub(super) fn numbers(&mut self, field: u64, values: &[u64]) {
        self.varint(field << 3 | BYTES);
        self.varint(values.iter().map(|value| varint_length(*value)).sum());
        values.iter().for_each(|value| self.varint(*value));
    }

    /// Adds the fields of another message.
    pub(super) fn append(&mut self, fields: &Self) {
        self.0.extend_from_slice(&fields.0);
    }

    /// The bytes.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether it has no fields.
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes all fields; the memory is reused.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    #[inline]
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

/// The length of a number: seven bits in each byte.
fn varint_length(value: u64) -> u64 {
    u64::from((u64::BITS - value.leading_zeros()).div_ceil(7)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_specified_wire_format() {
        let mut message = Message::default();
        message.number(1, 150);
        message.number(3, 0);
        message.bytes(2, b"testing");
        let mut inner = Message::default();
        inner.number(1, 150);
        message.message(3, &inner);
        message.numbers(6, &[3, 270, 86_942]);
        let expected: [&[u8]; 4] = [
            &[0x08, 0x96, 0x01],
            &[0x12, 0x07, b't', b'e', b's', b't', b'i', b'n', b'g'],
            &[0x1a, 0x03, 0x08, 0x96, 0x01],
            &[0x32, 0x06, 0x03, 0x8e, 0x02, 0x9e, 0xa7, 0x05],
        ];
        assert_eq!(message.as_bytes(), expected.concat());
        message.clear();
        message.number(1, u64::MAX);
        assert_eq!(message.as_bytes().len(), 11, "ten bytes of seven bits");
        message.clear();
        message.any_number(2, 0);
        message.signed(1, -1);
        message.double(3, 1.0);
        message.fixed_short(4, 7);
        let mut expected = vec![0x10, 0, 0x08];
        expected.extend([0xff; 9]);
        expected.extend([1, 0x19, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f]);
        expected.extend([0x25, 7, 0, 0, 0]);
        assert_eq!(message.as_bytes(), expected);
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::MAX] {
            message.clear();
            message.varint(value);
            assert_eq!(
                message.as_bytes().len() as u64,
                varint_length(value),
                "{value}"
            );
        }
    }
}
