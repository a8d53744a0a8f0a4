//! Frames of the control channel, in both directions: whatever decodes encodes again.

#![no_main]

use ipc_protocol::codec::{decode, encode};
use ipc_protocol::message::{ToChild, ToParent};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(message) = decode::<ToParent>(data) {
        assert!(encode(&message).is_ok());
    }
    if let Ok(message) = decode::<ToChild>(data) {
        assert!(encode(&message).is_ok());
    }
});
