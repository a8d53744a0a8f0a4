//! The seeds for fuzzing the control channel (`fuzz/seeds/control_frame`). Every kind of message
//! has a seed, so that a new kind is fuzzed, too. A message that was decoded from a seed is
//! unchanged by another round trip.
//!
//! A frame's first two bytes are the version; the files keep the version under which they were
//! found, and the test replaces it by the present one.

use std::collections::BTreeSet;
use std::path::Path;

use super::{decode, encode};
use crate::message::{PROTOCOL_VERSION, ToChild, ToParent};

/// The number of kinds of messages to a child.
const TO_CHILD: u32 = 16;
/// The kind of a message to a child.
fn kind_to_child(message: &ToChild) -> u32 {
    match message {
        ToChild::Start { .. } => 0,
        ToChild::EnsureStarted { .. } => 1,
        ToChild::Stop { .. } => 2,
        ToChild::Pause { .. } => 3,
        ToChild::Resume { .. } => 4,
        ToChild::PauseSampling { .. } => 5,
        ToChild::ResumeSampling { .. } => 6,
        ToChild::WaitOnePeriodicSampling { .. } => 7,
        ToChild::SetProbes { .. } => 8,
        ToChild::Echo { .. } => 9,
        ToChild::AwaitNextChunkManagerUpdate { .. } => 10,
        ToChild::DestroyReleasedChunksAtOrBefore { .. } => 11,
        ToChild::GatherProfile { .. } => 12,
        ToChild::CancelGather { .. } => 13,
        ToChild::GetGatherProfileProgress { .. } => 14,
        ToChild::NamedWaits { .. } => 15,
    }
}

/// The number of kinds of messages to the parent.
const TO_PARENT: u32 = 7;
/// The kind of a message to the parent.
fn kind_to_parent(message: &ToParent) -> u32 {
    match message {
        ToParent::Hello(_) => 0,
        ToParent::Done { .. } => 1,
        ToParent::ChunkManagerUpdate(_) => 2,
        ToParent::Profile { .. } => 3,
        ToParent::GatherProgress { .. } => 4,
        ToParent::ShutdownProfile { .. } => 5,
        ToParent::AskedWaits { .. } => 6,
    }
}

#[test]
fn every_kind_of_message_has_a_seed_that_survives_the_round_trip() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds/control_frame");
    let mut to_child = BTreeSet::new();
    let mut to_parent = BTreeSet::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let mut frame = std::fs::read(file.unwrap().path()).unwrap();
        let version = u16::try_from(PROTOCOL_VERSION).unwrap().to_le_bytes();
        frame
            .iter_mut()
            .zip(version)
            .for_each(|(byte, version)| *byte = version);
        if let Ok(message) = decode::<ToChild>(&frame) {
            assert_eq!(
                decode::<ToChild>(&encode(&message).unwrap()).unwrap(),
                message
            );
            to_child.insert(kind_to_child(&message));
        }
        if let Ok(message) = decode::<ToParent>(&frame) {
            assert_eq!(
                decode::<ToParent>(&encode(&message).unwrap()).unwrap(),
                message
            );
            to_parent.insert(kind_to_parent(&message));
        }
    }
    assert_eq!(to_child, (0..TO_CHILD).collect(), "messages to a child");
    assert_eq!(
        to_parent,
        (0..TO_PARENT).collect(),
        "messages to the parent"
    );
}
