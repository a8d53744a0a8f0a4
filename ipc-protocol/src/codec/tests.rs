//! Tests of the codec: every message survives the round trip, and hostile bytes are refused.

use profiler_core::ids::{ByteLimit, ProcessId, ProcessStart};
use profiler_core::internal::manager::update::{ManagerUpdate, ReleasedChunk, Update};
use profiler_core::internal::profile_spec::{CategoryRow, ProcessSummary, ProfileSpec};
use profiler_core::session::{Drops, EntryCounts};
use profiler_core::session::{Features, OverheadBudget, SampleSource, SessionParams};
use profiler_core::time::{Anchor, MonotonicNs, Timestamp};
use proptest::prelude::*;

use super::*;
use crate::environment::Token;
use crate::message::{
    GatherId, Hello, JoinRefusal, JoinRequest, Proportion, RecordedElsewhere, RequestId,
};

fn params() -> impl Strategy<Value = SessionParams> {
    (any::<[u64; 4]>(), prop::collection::vec(".{0,20}", 0..5)).prop_map(|(numbers, filters)| {
        SessionParams {
            limit: ByteLimit::new(numbers[0]),
            interval_ns: numbers[1],
            source: SampleSource::Timer,
            features: Features::from_bits(numbers[2]),
            filters,
            window_ns: numbers[3],
            overhead_budget: (numbers[0] & 1 == 0).then(|| OverheadBudget::new(numbers[1] as u32)),
        }
    })
}

fn spec() -> impl Strategy<Value = ProfileSpec> {
    let row = (".{0,20}", ".{0,8}", prop::collection::vec(".{0,8}", 0..4)).prop_map(
        |(name, color, subcategories)| CategoryRow {
            name,
            color,
            subcategories,
        },
    );
    (
        any::<[u64; 2]>(),
        any::<Option<u64>>(),
        prop::collection::vec(row, 0..5),
    )
        .prop_map(|(anchor, since, categories)| ProfileSpec {
            later: Anchor {
                ticks: Timestamp::from_raw(anchor[0]),
                monotonic: MonotonicNs(anchor[1]),
            },
            since: since.map(Timestamp::from_raw),
            categories,
        })
}

fn update() -> impl Strategy<Value = ManagerUpdate> {
    let chunk = any::<[u64; 2]>().prop_map(|[done, bytes]| ReleasedChunk {
        done: Timestamp::from_raw(done),
        bytes,
    });
    let changed = (
        any::<[u64; 4]>(),
        any::<Option<u64>>(),
        prop::collection::vec(chunk, 0..20),
    )
        .prop_map(|(numbers, oldest, newly_released)| {
            ManagerUpdate::Changed(Update {
                unreleased_bytes: numbers[0],
                released_bytes: numbers[1],
                oldest_done: oldest.map(Timestamp::from_raw),
                newly_released,
                wanted_bytes: numbers[2],
                allowance: ByteLimit::new(numbers[3]),
            })
        });
    prop_oneof![
        Just(ManagerUpdate::None),
        Just(ManagerUpdate::Final),
        changed
    ]
}

fn to_child() -> impl Strategy<Value = ToChild> {
    let simple = (0_u8..12, any::<[u64; 2]>()).prop_map(|(which, [number, bytes])| {
        let request = RequestId::new(number);
        let id = GatherId::new(number);
        match which {
            0 => ToChild::Stop { request },
            1 => ToChild::Pause { request },
            2 => ToChild::Resume { request },
            3 => ToChild::PauseSampling { request },
            4 => ToChild::ResumeSampling { request },
            5 => ToChild::WaitOnePeriodicSampling { request },
            6 => ToChild::AwaitNextChunkManagerUpdate {
                allowance: ByteLimit::new(bytes),
            },
            7 => ToChild::DestroyReleasedChunksAtOrBefore {
                timestamp: Timestamp::from_raw(bytes),
            },
            8 => ToChild::CancelGather { id },
            9 => ToChild::SetProbes {
                request,
                probes: profiler_core::groups::Probes::from_bits(bytes.to_le_bytes()[0]),
            },
            10 => ToChild::Echo { request },
            _ => ToChild::GetGatherProfileProgress { id },
        }
    });
    let start = (any::<bool>(), any::<[u64; 2]>(), params()).prop_map(
        |(ensure, [number, bytes], params)| {
            let request = RequestId::new(number);
            let allowance = ByteLimit::new(bytes);
            match ensure {
                true => ToChild::EnsureStarted {
                    request,
                    params,
                    allowance,
                },
                false => ToChild::Start {
                    request,
                    params,
                    allowance,
                },
            }
        },
    );
    let gather = (any::<u64>(), spec()).prop_map(|(id, spec)| ToChild::GatherProfile {
        id: GatherId::new(id),
        spec,
    });
    prop_oneof![simple, start, gather]
}

fn outcome() -> impl Strategy<Value = GatherOutcome> {
    let counts = any::<[u64; 11]>().prop_map(|n| EntryCounts {
        delivered: n[0],
        outside: n[10],
        evicted: n[1],
        dropped: Drops::new([n[3], n[4], n[5], n[6], n[7], n[8], n[9]]),
        unfinished: n[2],
    });
    let written = (any::<u64>(), any::<u32>(), counts).prop_map(|(length, threads, counts)| {
        GatherOutcome::Written {
            length,
            summary: ProcessSummary {
                threads,
                counts,
                ..ProcessSummary::default()
            },
        }
    });
    prop_oneof![written, ".{0,100}".prop_map(GatherOutcome::Failed)]
}

fn to_parent() -> impl Strategy<Value = ToParent> {
    let hello = (
        any::<[u8; 16]>(),
        any::<[u32; 2]>(),
        any::<u64>(),
        ".{0,30}",
    )
        .prop_map(|(token, [version, pid], start, name)| {
            ToParent::Hello(Hello {
                version,
                token: Token::from_bytes(token),
                pid: ProcessId::new(pid),
                start: ProcessStart::new(start),
                name,
            })
        });
    let progress = (any::<u64>(), any::<u32>(), ".{0,30}").prop_map(|(id, raw, location)| {
        ToParent::GatherProgress {
            id: GatherId::new(id),
            proportion: Proportion::from_raw(raw),
            location,
        }
    });
    prop_oneof![
        hello,
        progress,
        any::<u64>().prop_map(|n| ToParent::Done {
            request: RequestId::new(n)
        }),
        update().prop_map(ToParent::ChunkManagerUpdate),
        (any::<u64>(), outcome()).prop_map(|(id, outcome)| ToParent::Profile {
            id: GatherId::new(id),
            outcome
        }),
        any::<u64>().prop_map(|length| ToParent::ShutdownProfile { length }),
    ]
}

fn join_request() -> impl Strategy<Value = JoinRequest> {
    (
        any::<[u8; 16]>(),
        any::<[u32; 2]>(),
        any::<u64>(),
        ".{0,30}",
    )
        .prop_map(|(token, [parent, patience_ms], start, name)| JoinRequest {
            token: Token::from_bytes(token),
            name,
            start: ProcessStart::new(start),
            parent: ProcessId::new(parent),
            patience_ms,
        })
}

fn recorded_elsewhere() -> impl Strategy<Value = RecordedElsewhere> {
    (
        any::<[u8; 16]>(),
        any::<[u32; 3]>(),
        any::<u64>(),
        ".{0,30}",
    )
        .prop_map(
            |(token, [pid, parent, session], start, name)| RecordedElsewhere {
                token: Token::from_bytes(token),
                name,
                pid: ProcessId::new(pid),
                start: ProcessStart::new(start),
                parent: ProcessId::new(parent),
                session: ProcessId::new(session),
            },
        )
}

fn opening() -> impl Strategy<Value = Opening> {
    prop_oneof![
        join_request().prop_map(Opening::Join),
        recorded_elsewhere().prop_map(Opening::RecordedElsewhere),
    ]
}

fn join_answer() -> impl Strategy<Value = JoinAnswer> {
    let refusal = (0_u8..8, any::<[u32; 2]>(), ".{0,50}").prop_map(
        |(which, [theirs, ours], text)| match which {
            0 => JoinRefusal::WrongToken,
            1 => JoinRefusal::WrongVersion { theirs, ours },
            2 => JoinRefusal::OtherUser,
            3 => JoinRefusal::AlreadyRecords,
            4 => JoinRefusal::Invisible,
            5 => JoinRefusal::Misbehaved(text),
            6 => JoinRefusal::NoMemory(text),
            _ => JoinRefusal::System(text),
        },
    );
    prop_oneof![
        refusal.prop_map(JoinAnswer::Refused),
        any::<[u8; 16]>().prop_map(|token| JoinAnswer::Welcome {
            token: Token::from_bytes(token)
        }),
    ]
}

proptest! {
    #[test]
    fn every_message_of_a_join_survives_the_round_trip(
        opening in opening(),
        answer in join_answer(),
    ) {
        let frame = encode(&opening).unwrap();
        prop_assert!(frame.len() <= limits::MAX_JOIN_FRAME_BYTES);
        prop_assert_eq!(decode::<Opening>(&frame).unwrap(), opening);
        let frame = encode(&answer).unwrap();
        prop_assert!(frame.len() <= limits::MAX_JOIN_FRAME_BYTES);
        prop_assert_eq!(decode::<JoinAnswer>(&frame).unwrap(), answer);
    }

    #[test]
    fn every_message_to_a_child_survives_the_round_trip(message in to_child()) {
        prop_assert_eq!(decode::<ToChild>(&encode(&message).unwrap()).unwrap(), message);
    }

    #[test]
    fn every_message_to_the_parent_survives_the_round_trip(message in to_parent()) {
        prop_assert_eq!(decode::<ToParent>(&encode(&message).unwrap()).unwrap(), message);
    }

    #[test]
    fn random_bytes_never_panic(mut frame in prop::collection::vec(any::<u8>(), 0..512), right_version: bool) {
        if right_version && frame.len() >= 2 {
            frame[..2].copy_from_slice(&wire_version().to_le_bytes());
        }
        let _ = decode::<ToChild>(&frame);
        let _ = decode::<ToParent>(&frame);
    }

    #[test]
    fn a_cut_message_is_an_error(message in to_parent(), cut in 1_usize..64) {
        let frame = encode(&message).unwrap();
        let left = frame.len().saturating_sub(cut);
        prop_assert!(decode::<ToParent>(&frame[..left]).is_err());
    }
}

#[test]
fn another_version_is_reported_before_any_other_error() {
    let frame = [7, 0, 0xff, 0xff, 0xff];
    assert_eq!(
        decode::<ToChild>(&frame),
        Err(ProtocolError::WrongVersion {
            theirs: 7,
            ours: PROTOCOL_VERSION
        })
    );
    let huge = vec![9; limits::MAX_FRAME_BYTES * 2];
    assert!(matches!(
        decode::<ToChild>(&huge),
        Err(ProtocolError::WrongVersion { .. })
    ));
}

#[test]
fn a_frame_without_a_version_is_too_short() {
    assert_eq!(decode::<ToChild>(&[1]), Err(ProtocolError::TooShort(1)));
    assert_eq!(decode::<ToParent>(&[]), Err(ProtocolError::TooShort(0)));
}

#[test]
fn trailing_bytes_are_an_error() {
    let mut frame = encode(&ToChild::Stop {
        request: RequestId::new(3),
    })
    .unwrap();
    frame.push(0);
    assert_eq!(
        decode::<ToChild>(&frame),
        Err(ProtocolError::Codec(CodecError::TrailingBytes(1)))
    );
}

#[test]
fn an_oversize_frame_is_refused_before_it_is_decoded() {
    let mut frame = wire_version().to_le_bytes().to_vec();
    frame.resize(limits::MAX_FRAME_BYTES + 1, 0);
    assert_eq!(
        decode::<ToChild>(&frame),
        Err(ProtocolError::TooLarge {
            length: limits::MAX_FRAME_BYTES + 1
        })
    );
}

#[test]
fn too_long_texts_are_refused_in_both_directions() {
    let message = ToParent::GatherProgress {
        id: GatherId::new(1),
        proportion: Proportion::ZERO,
        location: "x".repeat(limits::MAX_LOCATION_BYTES + 1),
    };
    let refused = ProtocolError::TooLong {
        what: "progress location",
        limit: limits::MAX_LOCATION_BYTES,
    };
    assert_eq!(encode(&message), Err(refused.clone()));

    let mut frame = wire_version().to_le_bytes().to_vec();
    frame.extend(profiler_core::internal::codec::encode(&message).unwrap());
    assert_eq!(decode::<ToParent>(&frame), Err(refused));
}

#[test]
fn a_category_list_beyond_a_frame_is_refused_by_the_sender() {
    let row = |n: usize| CategoryRow {
        name: format!("category {n}"),
        color: "blue".into(),
        subcategories: vec!["s".repeat(limits::MAX_LABEL_BYTES); 32],
    };
    let spec = ProfileSpec {
        later: Anchor {
            ticks: Timestamp::ZERO,
            monotonic: MonotonicNs(0),
        },
        since: None,
        categories: (0..64).map(row).collect(),
    };
    assert!(
        encode(&ToChild::GatherProfile {
            id: GatherId::new(1),
            spec
        })
        .is_err()
    );
}

#[test]
fn the_longest_update_and_the_longest_filters_fit_a_frame() {
    let chunk = ReleasedChunk {
        done: Timestamp::MAX,
        bytes: u64::MAX,
    };
    let update = Update {
        unreleased_bytes: u64::MAX,
        released_bytes: u64::MAX,
        oldest_done: Some(Timestamp::MAX),
        newly_released: vec![chunk; Update::MAX_LISTED],
        wanted_bytes: u64::MAX,
        allowance: ByteLimit::new(u64::MAX),
    };
    encode(&ToParent::ChunkManagerUpdate(ManagerUpdate::Changed(
        update,
    )))
    .unwrap();
    let filters = vec!["f".repeat(SessionParams::MAX_FILTER_BYTES); SessionParams::MAX_FILTERS];
    let params = SessionParams {
        filters,
        ..SessionParams::default()
    };
    encode(&ToChild::Start {
        request: RequestId::new(1),
        params,
        allowance: ByteLimit::new(1),
    })
    .unwrap();
}
