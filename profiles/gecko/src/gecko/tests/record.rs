//! Entries of all kinds as the sampler, markers with stacks and the allocator write them, with
//! times that are exact.

use std::sync::{Mutex, MutexGuard, PoisonError};

use profiler_core::ids::{ByteLimit, DefinitionId, ThreadId};
use profiler_core::internal::codec;
use profiler_core::internal::entry::stack::Frame;
pub(super) use profiler_core::internal::exact_entries::{
    self, add_counters as counters, add_overhead as overhead,
};
use profiler_core::internal::payload::encode;
use profiler_core::internal::pool::definitions::{Definition, SiteDefinition};
use profiler_core::internal::reader::ModuleDefinition;
use profiler_core::marker::schema::{Format, MarkerSchema};
use profiler_core::session::{self, Features, SessionParams, StartOptions};
use profiler_core::time::{ClockKind, SessionClock, Timestamp};
use test_support::patience::until;

/// A process has one session, so the tests that start one run one after the other.
static ALONE: Mutex<()> = Mutex::new(());

/// A session that ends with the test.
pub(super) struct Session {
    start: Timestamp,
    _alone: MutexGuard<'static, ()>,
}

impl Session {
    pub(super) fn start() -> Self {
        Self::with_limit(4 << 20)
    }

    pub(super) fn with_limit(bytes: u64) -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut clock = SessionClock::start_now();
        // One tick is one nanosecond, whatever the machine's clock is.
        clock.kind = ClockKind::Monotonic;
        clock.start.ticks = Timestamp::from_raw(clock.start.monotonic.0);
        let features = Features::NO_SAMPLING; // modules are those that the tests define
        let params = SessionParams {
            limit: ByteLimit::new(bytes),
            features,
            ..SessionParams::default()
        };
        let options = StartOptions {
            clock: Some(clock),
            ..StartOptions::default()
        };
        session::start(params, options).unwrap();
        // The recording begins with the clock, so a session that starts slowly records all times.
        let begin = clock.start.ticks;
        assert!(until(|| exact_entries::begin_recording_at(begin)));
        Self {
            start: clock.start.ticks,
            _alone: alone,
        }
    }

    /// So many milliseconds after the start.
    pub(super) fn ms(&self, ms: u64) -> Timestamp {
        Timestamp::from_raw(self.start.raw() + ms * 1_000_000)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        session::stop();
    }
}

pub(super) fn module(path: &str, base: u64, start: u64, end: u64) -> ModuleDefinition {
    ModuleDefinition {
        path: path.to_owned(),
        build_id: path.as_bytes().to_vec(),
        base,
        start,
        end,
    }
}

fn define(definition: &Definition) -> DefinitionId {
    exact_entries::define(definition).unwrap()
}

/// A call site named `name`, with a payload of one text or with none.
pub(super) fn site(name: &str, has_payload: bool) -> DefinitionId {
    let schema = MarkerSchema::in_chart_and_table("Job").key_format("title", Format::String);
    let schema = codec::encode(&schema).unwrap();
    let marker_type = match has_payload {
        true => define(&Definition::MarkerType {
            schema,
            keys: vec!["title".to_owned()],
        }),
        false => DefinitionId::NONE,
    };
    let name = name.to_owned();
    let category = DefinitionId::NONE;
    define(&Definition::Site(SiteDefinition {
        name,
        category,
        subcategory: 0,
        marker_type,
    }))
}

/// A marker with a stack, and a title if its site wants one.
pub(super) fn marker_with_stack(
    site: DefinitionId,
    at: Timestamp,
    frames: &[Frame],
    title: Option<&str>,
    thread: Option<ThreadId>,
) {
    #[derive(serde::Serialize)]
    struct Job<'a> {
        title: &'a str,
    }
    let mut payload = vec![0; 4096];
    let len = title.map_or(0, |title| encode(&Job { title }, &mut payload).unwrap());
    exact_entries::add_marker_with_stack(site, at, frames, &payload[..len], thread).unwrap();
}

pub(super) fn allocation(at: Timestamp, bytes: i64, address: u64, frames: &[Frame]) {
    exact_entries::add_allocation(at, bytes, address, frames).unwrap();
}

/// Runs `body` on a thread of its own with this name, to its end.
pub(super) fn on_thread(name: &str, body: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn_scoped(scope, body)
            .unwrap()
            .join()
            .unwrap();
    });
}
