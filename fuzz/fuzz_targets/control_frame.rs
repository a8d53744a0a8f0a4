//! Frames of the control channel, in both directions: whatever decodes encodes again, to the same message.
//!
//! The first two bytes are read as they are, and once more as this version's, so that a new version needs no new seeds.

#![no_main]

use std::fmt::Debug;

use ipc_protocol::codec::{Message, decode, encode};
use ipc_protocol::message::{PROTOCOL_VERSION, ToChild, ToParent};
use libfuzzer_sys::fuzz_target;

fn check<M: Message + PartialEq + Debug>(frame: &[u8]) {
    if let Ok(message) = decode::<M>(frame) {
        let again = encode(&message).expect("what was decoded is a message");
        assert_eq!(decode::<M>(&again).as_ref(), Ok(&message));
    }
}

fuzz_target!(|data: &[u8]| {
    let mut frame = data.to_vec();
    for _ in 0..2 {
        check::<ToParent>(&frame);
        check::<ToChild>(&frame);
        frame.iter_mut().zip((PROTOCOL_VERSION as u16).to_le_bytes()).for_each(|(byte, own)| *byte = own);
    }
});
