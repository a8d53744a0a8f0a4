//! The items for other crates of the profiler, and for the tests, benchmarks and fuzz targets of
//! the workspace.
//!
//! Not for applications; hidden in the documentation. Each item is named, so that this file shows
//! what the other crates use. Invariant: an item that applications need has a path outside of this
//! module.

pub mod call_sites {
    //! See `pool::tag` and `record::session_state` in the sources: what call sites in other
    //! languages check.

    pub use crate::pool::tag::pool_tag;
    pub use crate::record::session_state::active_word;
}

pub mod codec {
    //! See `codec` in the sources: encoding and decoding.

    pub use crate::codec::{CodecError, MAX_ENCODED_BYTES, decode, encode, encode_into};
}

#[cfg(all(
    target_os = "linux",
    not(profiler_portable),
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
pub mod crash_note {
    //! See `marker::crash` in the sources: the crash of this process, in the pool.

    pub use crate::marker::crash::{
        Claimed, CrashClaim, claim, is_claimed, prepare, record_observed,
    };
    pub use crate::marker::crash_marker::CrashMarker;
}

pub mod dead_pool {
    //! See `dead_pool` in the sources: the pool of a dead process.

    pub use crate::dead_pool::DeadPool;
}

pub mod durations {
    //! See `durations` in the sources: histograms of durations.

    pub use crate::durations::{BUCKETS, bucket_bound_us};
}

pub mod entry {
    //! See `entry` in the sources: entries.

    pub use crate::entry::{Entry, MarkerEntry, Timing, decode};

    pub mod periodic {
        //! See `entry::periodic` in the sources.

        pub use crate::entry::periodic::{CounterValue, CountersEntry, OverheadEntry};
    }

    pub mod sample {
        //! See `entry::sample` in the sources.

        pub use crate::entry::sample::{AllocationEntry, SampleEntry, Stacks};
    }

    pub mod trace {
        //! See `entry::trace` in the sources.

        pub use crate::entry::trace::{CONTEXT_WORDS, SampleContext, TraceEntry};
    }

    pub mod stack {
        //! See `entry::stack` in the sources.

        pub use crate::entry::stack::{Frame, MAX_FRAMES, Stack};
    }
}

pub mod exact_entries {
    //! See `exact_entries` in the sources: entries with exact times, for tests.

    pub use crate::exact_entries::{
        add_allocation, add_counters, add_marker_with_stack, add_overhead, begin_recording_at,
        define,
    };
}

pub mod manager {
    //! See `manager` in the sources: the chunk manager.

    pub use crate::manager::Listener;
    pub use crate::record::local::is_maintenance_idle;

    pub mod update {
        //! See `manager::update` in the sources.

        pub use crate::manager::update::{ManagerUpdate, ReleasedChunk, Update};
    }
}

pub mod observed {
    //! See `record::pool_writer` and `sampler::observed` in the sources: other processes, whose
    //! pools this process writes.

    pub use crate::record::pool_writer::{PoolProcess, PoolWriter};
    #[cfg(all(
        target_os = "linux",
        not(profiler_portable),
        any(target_arch = "x86_64", target_arch = "aarch64")
    ))]
    pub use system::*;

    #[cfg(all(
        target_os = "linux",
        not(profiler_portable),
        any(target_arch = "x86_64", target_arch = "aarch64")
    ))]
    mod system {
        //! What only exists where the stacks of other processes can be unwound.

        pub use crate::sampler::observed::{
            LoadedFile, ObservedFiles, ObservedProcess, ObservedStack,
        };
        pub use crate::sampler::observed_clock::ObservedClock;
        pub use crate::sampler::observed_look::{AwaitedName, LookBudget, LookHelp, WaitingThread};
        pub use crate::sampler::observed_place::ObservedPlace;
        pub use crate::sampler::observed_waits::{
            BegunSample, ObservedThreads, SampledThread, WantedSample,
        };
    }
}

pub mod panic_note {
    //! See `panic_note` in the sources: the latest panics, in the pool.

    pub use crate::panic_note::{NotedPanic, PanicFacts, note, thread_name};
}

pub mod payload {
    //! See `marker::payload` in the sources: the bytes of payloads.

    pub use crate::marker::payload::{FieldValue, PayloadError, PayloadReader, combined, encode};
}

pub mod pool {
    //! See `pool` in the sources: the shared bytes.

    pub use crate::pool::{AttachError, PoolSpec, floor_bytes, new_id};

    pub mod definitions {
        //! See `pool::definitions` in the sources.

        pub use crate::pool::definitions::{Definition, GROUP_TRACK_CATEGORY, SiteDefinition};
    }

    pub mod header {
        //! See `pool::header` in the sources.

        pub use crate::pool::header::Header;
    }

    pub mod layout {
        //! See `pool::layout` in the sources.

        pub use crate::pool::layout::header;
        pub use crate::pool::layout::{
            COUNTER_BYTES, Extent, Layout, Life, PANIC_TEXT_WORDS, Region, SLOT_BYTES, THREAD_BYTES,
        };
    }
}

pub mod profile_spec {
    //! See `profile_spec` in the sources: what a profile is to contain.

    pub use crate::profile_spec::{
        CategoryRow, ProcessRole, ProcessSummary, ProfileSpec, ProfileSubject, RangeLimits,
        ShownRange,
    };
}

pub mod reader {
    //! See `reader` in the sources: decoding of pools.

    pub use crate::reader::{
        ByteSource, CategoryDefinition, ChunkBuffer, ChunkIdentity, ChunkInfo, CounterDefinition,
        CounterInfo, Definitions, Entries, Followed, Follower, LabelDefinition, MarkerType,
        ModuleDefinition, PanicInfo, PoolReader, Progress, ReadError, Snapshot, ThreadInfo,
        read_header,
    };

    pub mod groups {
        //! See `reader::groups` in the sources.

        pub use crate::reader::groups::{
            GroupReader, GroupReading, GroupTotals, Histogram, Peak, PoolGroups,
        };
    }
}

pub mod recorder_note {
    //! See `recorder_note` in the sources: which files of a process contain the recorder.

    pub use crate::recorder_note::is_in_another_file;
}

pub mod runtime_site {
    //! See `marker::runtime_site` in the sources: call sites that are made at run time.

    pub use crate::category::by_target::category_of_target;
    pub use crate::marker::payload::FieldWriter;
    pub use crate::marker::runtime_site::{RuntimeSite, count_without_site, end_span};
}

pub mod span_number {
    //! See `marker::span_number` in the sources: the numbers of spans.

    pub use crate::marker::span_number::{draw_span_number, flow_of, options_of_span};
}

pub mod sys {
    //! See `sys` in the sources: the operating system.

    pub use crate::sys::{
        ClockError, ThreadEnd, boot_id, clock_error, is_alive, own_process_start, page_size,
        process_id,
    };
    #[cfg(all(target_os = "linux", not(profiler_portable)))]
    pub use crate::sys::{ProcessStat, open_process};
}

pub mod waits {
    //! See `sampler::asked_waits` in the sources: for whom the threads of a process wait.

    pub use crate::sampler::asked_waits::{
        AskedWait, MAX_ASKED_MEMORY, MAX_ASKED_WAITS, NamedWait,
    };
}
