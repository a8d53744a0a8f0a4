//! What a thread on a small stack records: one entry of one kind.
//!
//! Used by [`super::thread`].

use std::alloc::{GlobalAlloc, Layout};
use std::hint::black_box;

use profiler_core::alloc::ProfilingAllocator;
use profiler_core::counter::Counter;
use profiler_core::marker::schema::{Format, MarkerSchema};
use profiler_core::marker::{MarkerOptions, MarkerStack, ProfilerMarker, add_marker, category};
use profiler_core::{group, label, marker};

/// Samples every allocation. It need not be the global allocator.
pub static ALLOCATOR: ProfilingAllocator = ProfilingAllocator::new().sampling_every(1);

static COUNTER: Counter = Counter::new("small", "test", "Changed on small stacks");

/// The size of an allocation of a test, in bytes.
pub(super) const ALLOCATED: usize = 12_345;

/// The name of all markers here.
pub(super) const MARKER: &str = "small";

/// A typical payload: a number and a short text.
#[derive(serde::Serialize)]
struct Request<'a> {
    bytes: u64,
    path: &'a str,
}

impl ProfilerMarker for Request<'_> {
    const TYPE_NAME: &'static str = "SmallRequest";

    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table(Self::TYPE_NAME)
            .key_label_format("bytes", "Size", Format::Bytes)
            .key_label_format("path", "Path", Format::FilePath)
    }
}

const REQUEST: Request<'_> = Request {
    bytes: 7,
    path: "Cargo.toml",
};

/// A kind of recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing, to measure the stack that the thread itself uses.
    Nothing,
    /// A marker without payload.
    Marker,
    /// A marker with a typed payload.
    Typed,
    /// A marker with its stack.
    Stack,
    /// A marker with a name made at run time, a typed payload and its stack.
    Named,
    /// A sampled allocation and its free.
    Allocation,
    /// A label, and a marker that shows it.
    Label,
    /// A group entered and left.
    Group,
    /// A change of a counter.
    Counter,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 9] = [
        Self::Nothing,
        Self::Marker,
        Self::Typed,
        Self::Stack,
        Self::Named,
        Self::Allocation,
        Self::Label,
        Self::Group,
        Self::Counter,
    ];

    /// Returns its name, as an argument of a program.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Marker => "marker",
            Self::Typed => "typed",
            Self::Stack => "stack",
            Self::Named => "named",
            Self::Allocation => "allocation",
            Self::Label => "label",
            Self::Group => "group",
            Self::Counter => "counter",
        }
    }

    /// Returns the kind of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns how many markers or allocations are in the pool after one recording.
    pub const fn entries(self) -> usize {
        match self {
            Self::Nothing | Self::Group | Self::Counter => 0,
            Self::Marker | Self::Typed | Self::Stack | Self::Named | Self::Label => 1,
            Self::Allocation => 2,
        }
    }

    /// Returns whether its entries contain a stack of native frames.
    pub const fn has_stack(self) -> bool {
        matches!(self, Self::Stack | Self::Named | Self::Allocation)
    }

    /// Records an entry of this kind. The frame of this function belongs to the program.
    #[inline(never)]
    pub fn record(self) {
        match self {
            Self::Nothing => {}
            Self::Marker => plain(),
            Self::Typed => typed(),
            Self::Stack => stack(),
            Self::Named => named(),
            Self::Allocation => allocation(),
            Self::Label => labelled(),
            Self::Group => grouped(),
            Self::Counter => COUNTER.add(1),
        }
    }
}

#[inline(never)]
fn plain() {
    marker!(MARKER, &category::TEST);
}

#[inline(never)]
fn typed() {
    marker!(MARKER, &category::TEST, MarkerOptions::default(), &REQUEST);
}

#[inline(never)]
fn stack() {
    marker!(
        MARKER,
        &category::TEST,
        MarkerOptions::default().with_stack(MarkerStack::Full)
    );
}

#[inline(never)]
fn named() {
    let options = MarkerOptions::default().with_stack(MarkerStack::Full);
    add_marker(black_box(MARKER), &category::TEST, options, &REQUEST);
}

#[inline(never)]
fn labelled() {
    let _label = label!("small label");
    marker!(
        MARKER,
        &category::TEST,
        MarkerOptions::default().with_stack(MarkerStack::Labels)
    );
}

#[inline(never)]
fn grouped() {
    let _guard = group!("plugin:small").enter();
    black_box(());
}

#[inline(never)]
#[allow(unsafe_code)]
fn allocation() {
    let layout = Layout::new::<[u8; ALLOCATED]>();
    // SAFETY: the layout is not empty.
    let memory = unsafe { ALLOCATOR.alloc(layout) };
    if !memory.is_null() {
        // SAFETY: allocated above, with this layout.
        unsafe { ALLOCATOR.dealloc(black_box(memory), layout) };
    }
}
