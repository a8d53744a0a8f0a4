//! Fuzzes frames of the control channel in both directions, and of the exchange before it: a frame
//! that decodes can be encoded again, and the result decodes to the same message.
//!
//! Each input is decoded twice: as it is, and with its first two bytes replaced by the current
//! protocol version. Seeds therefore stay useful when the version changes.

use std::fmt::Debug;

use ipc_protocol::codec::{Message, decode, encode};
use ipc_protocol::message::{JoinAnswer, Opening, PROTOCOL_VERSION, ToChild, ToParent};

fn check<M: Message + PartialEq + Debug>(frame: &[u8]) {
    if let Ok(message) = decode::<M>(frame) {
        let again = encode(&message).expect("a decoded message can be encoded");
        assert_eq!(decode::<M>(&again).as_ref(), Ok(&message));
    }
}

/// Checks one input.
pub(crate) fn check_input(data: &[u8]) {
    let mut frame = data.to_vec();
    for _ in 0..2 {
        check::<ToParent>(&frame);
        check::<ToChild>(&frame);
        check::<Opening>(&frame);
        check::<JoinAnswer>(&frame);
        frame
            .iter_mut()
            .zip((PROTOCOL_VERSION as u16).to_le_bytes())
            .for_each(|(byte, version)| *byte = version);
    }
}
