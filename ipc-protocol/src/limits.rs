//! The largest sizes on the wire.
//!
//! Checked by [`crate::codec`] in both directions: the sender gets an error for its mistake, and
//! the receiver does not have to trust the sender. Invariant: a message within these limits fits
//! one frame, except that a category list may be refused for its total size.

/// Largest frame, version number included. A frame this long still travels as one packet of the
/// socket, so receiving it never waits for a second part.
pub const MAX_FRAME_BYTES: usize = 64 * 1024;

/// Longest process name, in bytes.
pub const MAX_NAME_BYTES: usize = 256;

/// Longest name of a wait, in bytes.
pub const MAX_WAIT_NAME_BYTES: usize = 512;

/// Longest location text of a progress report, in bytes.
pub const MAX_LOCATION_BYTES: usize = 256;

/// Longest reason for which a session refuses a process, in bytes.
pub const MAX_REFUSAL_BYTES: usize = 512;

/// Longest frame of a process that asks to join a session, in bytes.
pub const MAX_JOIN_FRAME_BYTES: usize = 1024;

/// Longest reason for a profile that could not be written, in bytes.
pub const MAX_FAILURE_BYTES: usize = 4 * 1024;

/// Most rows of a category list.
pub const MAX_CATEGORIES: usize = 256;

/// Most subcategories of one category.
pub const MAX_SUBCATEGORIES: usize = 256;

/// Longest name of a category, subcategory or colour, in bytes.
pub const MAX_LABEL_BYTES: usize = 128;

/// Cuts `text` to at most `limit` bytes, at a character border.
///
/// For senders: texts from other sources (a process name, an error) are cut before they are sent,
/// since [`crate::codec::encode`] refuses texts that are too long.
pub fn clip(text: &mut String, limit: usize) {
    text.truncate(text.floor_char_boundary(limit));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clipping_keeps_whole_characters() {
        let mut text = String::from("aää");
        clip(&mut text, 4);
        assert_eq!(text, "aä");
        clip(&mut text, 100);
        assert_eq!(text, "aä");
    }
}
