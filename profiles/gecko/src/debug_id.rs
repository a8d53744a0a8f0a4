//! The two identifiers of a module's contents that viewers and symbol servers use.
//!
//! Every profile writer and the symbol lookup derive them from the linker's build id. Both are
//! empty for a module without a build id, so that viewers do not ask a symbol server.

use std::fmt::Write;

/// Bytes of a build id that go into a breakpad id.
const GUID_BYTES: usize = 16;

/// The identity that breakpad gives a file: the first 16 bytes of the build id as a GUID, in
/// capitals, and the age, which is 0.
///
/// The first three fields of a GUID are numbers. In the build id of an ELF file they are
/// little-endian on all supported machines.
pub fn breakpad_id(build_id: &[u8]) -> String {
    if build_id.is_empty() {
        return String::new();
    }
    let mut guid = [0; GUID_BYTES];
    guid.iter_mut()
        .zip(build_id)
        .for_each(|(to, from)| *to = *from);
    let [a, b, c, d, e, f, g, h, rest @ ..] = guid;
    let mut id = String::with_capacity(2 * GUID_BYTES + 1);
    [d, c, b, a, f, e, h, g]
        .iter()
        .chain(&rest)
        .for_each(|byte| push_hex(&mut id, *byte, true));
    id.push('0');
    id
}

/// The identity that the linker gives a file: the whole build id in hexadecimal.
pub fn code_id(build_id: &[u8]) -> String {
    let mut id = String::with_capacity(2 * build_id.len());
    build_id
        .iter()
        .for_each(|byte| push_hex(&mut id, *byte, false));
    id
}

fn push_hex(text: &mut String, byte: u8, capitals: bool) {
    // Writing to a `String` never fails.
    let _ = if capitals {
        write!(text, "{byte:02X}")
    } else {
        write!(text, "{byte:02x}")
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILD_ID: [u8; 20] = [
        0x4b, 0x1c, 0xa8, 0x2f, 0x95, 0x0d, 0x38, 0xe6, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd,
        0xef, 0x10, 0x20, 0x30, 0x40,
    ];

    #[test]
    fn the_numbers_of_the_guid_are_little_endian_and_the_other_bytes_are_unchanged() {
        assert_eq!(breakpad_id(&BUILD_ID), "2FA81C4B0D95E6380123456789ABCDEF0");
    }

    #[test]
    fn a_short_build_id_is_padded_and_an_empty_one_has_no_id() {
        assert_eq!(
            breakpad_id(&BUILD_ID[..2]),
            "00001C4B0000000000000000000000000"
        );
        assert_eq!(
            (breakpad_id(&[]), code_id(&[])),
            (String::new(), String::new())
        );
    }

    #[test]
    fn the_code_id_is_the_whole_build_id() {
        assert_eq!(
            code_id(&BUILD_ID),
            "4b1ca82f950d38e60123456789abcdef10203040"
        );
    }
}
