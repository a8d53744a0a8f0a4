//! Tests of stacks that a thread takes of itself, for markers and sampled allocations: each label
//! is directly inside the function that opened it, and the innermost frame belongs to the program,
//! not to the profiler.

#![cfg(all(
    target_os = "linux",
    not(profiler_portable),
    any(target_arch = "x86_64", target_arch = "aarch64")
))]

use std::hint::black_box;
use std::time::Duration;

use profiler_core::alloc::ProfilingAllocator;
use profiler_core::internal::entry::Entry;
use profiler_core::internal::entry::stack::{Frame, Stack};
use profiler_core::internal::reader::{ChunkBuffer, PoolReader, Snapshot};
use profiler_core::marker::{
    MarkerOptions, MarkerStack, Text, add_text_marker, add_untyped_marker, category,
};
use profiler_core::session::{self, Features, SessionParams, StartOptions};
use profiler_core::{label, marker, text_marker};
use test_support::own_process;

#[global_allocator]
static ALLOCATOR: ProfilingAllocator = ProfilingAllocator::new().sampling_every(1);

const SIZE: usize = 12_345;

#[derive(Clone, Debug, PartialEq)]
enum Seen {
    /// Address of the code.
    Code(u64),
    Label(String),
}

fn resolve(snapshot: &Snapshot, stack: Stack<'_>) -> Vec<Seen> {
    let resolve_one = |frame| match frame {
        Frame::Label(id) => Seen::Label(snapshot.definitions.label(id).unwrap().name.clone()),
        Frame::Code(id, relative) => Seen::Code(
            snapshot
                .definitions
                .module(id)
                .unwrap()
                .base
                .wrapping_add(relative),
        ),
        Frame::Unknown(address) => Seen::Code(address),
    };
    stack.frames().map(resolve_one).collect()
}

/// The stacks of all markers, by name, and those of allocations of [`SIZE`] bytes.
fn read() -> Vec<(String, Vec<Seen>)> {
    let reader = PoolReader::open(session::pool_file().unwrap()).unwrap();
    let snapshot = reader.snapshot().unwrap();
    let mut seen = Vec::new();
    let mut buffer = ChunkBuffer::default();
    for chunk in snapshot.chunks() {
        let Some(entries) = reader.read_chunk(chunk, &mut buffer).unwrap() else {
            continue;
        };
        for entry in entries {
            match entry {
                Entry::Marker(marker) => {
                    let site = &snapshot.definitions.site(marker.site).unwrap().name;
                    seen.push((
                        marker.name.unwrap_or(site).to_owned(),
                        resolve(&snapshot, marker.stack),
                    ));
                }
                Entry::Allocation(found) if found.bytes.unsigned_abs() == SIZE as u64 => {
                    seen.push((found.bytes.to_string(), resolve(&snapshot, found.stack)));
                }
                _ => {}
            }
        }
    }
    seen
}

/// Whether the code is in the first 4 KiB of `function`.
fn is_in(seen: &Seen, function: fn()) -> bool {
    matches!(seen, Seen::Code(at) if (function as usize as u64..function as usize as u64 + 4096).contains(at))
}

#[inline(never)]
fn outer() {
    let _label = label!("outer");
    inner();
    black_box(());
}

#[inline(never)]
fn inner() {
    let _first = label!("first");
    let _second = label!("second");
    let full = MarkerOptions::default().with_stack(MarkerStack::Full);
    marker!("marker", &category::TEST, full);
    marker!("typed", &category::TEST, full, &Text { name: "payload" });
    text_marker!("text", &category::TEST, full, "payload");
    add_untyped_marker("untyped at run time", &category::TEST, full);
    add_text_marker("text at run time", &category::TEST, full, "payload");
    drop(black_box(Vec::<u8>::with_capacity(SIZE)));
}

/// Starts a session that walks stacks, and waits until the profiler knows the modules.
fn start(features: Features) {
    let params = SessionParams {
        features: features.with(Features::STACK_WALK),
        ..SessionParams::default()
    };
    session::start(params, StartOptions::default()).unwrap();
    for _ in 0..5000 {
        marker!(
            "probe",
            &category::TEST,
            MarkerOptions::default().with_stack(MarkerStack::Full)
        );
        if read().iter().any(|(_, stack)| !stack.is_empty()) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("stacks are not walked");
}

fn check(name: &str, stack: &[Seen], exact: bool) {
    let label = |name: &str| {
        stack
            .iter()
            .position(|seen| *seen == Seen::Label(name.to_owned()))
    };
    let (Some(around), Some(first), Some(second)) =
        (label("outer"), label("first"), label("second"))
    else {
        panic!("{name}: {stack:?}");
    };
    assert!(is_in(&stack[around - 1], outer), "{name}: {stack:?}");
    assert_eq!(
        (first, second),
        (around + 2, around + 3),
        "{name}: {stack:?}"
    );
    assert!(is_in(&stack[around + 1], inner), "{name}: {stack:?}");
    if exact {
        assert_eq!(
            stack.len(),
            second + 1,
            "{name} shows frames of the profiler: {stack:?}"
        );
    }
}

#[test]
fn each_label_of_a_marker_is_directly_inside_the_function_that_opened_it() {
    own_process!();
    start(Features::NONE);
    outer();
    let seen = read();
    session::stop();
    let own: Vec<_> = seen.iter().filter(|(name, _)| name != "probe").collect();
    assert_eq!(own.len(), 5);
    own.iter()
        .for_each(|(name, stack)| check(name, stack, true));
}

#[test]
fn a_sampled_allocation_and_its_free_have_the_stack_of_their_caller() {
    own_process!();
    start(Features::NATIVE_ALLOCATIONS);
    outer();
    let seen = read();
    session::stop();
    let of = |bytes: i64| {
        seen.iter()
            .filter(|(name, _)| *name == bytes.to_string())
            .collect::<Vec<_>>()
    };
    let size = i64::try_from(SIZE).unwrap();
    assert_eq!((of(size).len(), of(-size).len()), (1, 1));
    [of(size), of(-size)]
        .concat()
        .iter()
        .for_each(|(name, stack)| check(name, stack, false));
}
