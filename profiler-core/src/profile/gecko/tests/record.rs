//! Entries of all kinds as the sampler, markers with stacks and the allocator write them, with
//! times that are exact.

use std::sync::{MutexGuard, PoisonError};

use test_support::patience::until;

use crate::codec;
use crate::entry::periodic::{COUNTER_VALUE_BYTES, CounterValue, OverheadEntry, write_counter};
use crate::entry::sample::write_allocation;
use crate::entry::stack::{self, Frame};
use crate::entry::{Kind, Timing, head_of, with_length};
use crate::ids::{ByteLimit, DefinitionId, ThreadId};
use crate::marker::payload;
use crate::params::{Features, SessionParams};
use crate::pool::definitions::{Definition, SiteDefinition};
use crate::pool::layout::header as at;
use crate::pool::tag::pool_tag;
use crate::reader::ModuleDefinition;
use crate::record::local;
use crate::record::writer::{Front, PayloadBuffer};
use crate::schema::{Format, MarkerSchema};
use crate::session::{self, StartOptions};
use crate::time::{ClockKind, SessionClock, Timestamp};

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
        let alone = session::ALONE_IN_TESTS
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
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
        let begin = clock.start.ticks.raw();
        assert!(until(|| {
            local::with_manager(|manager| {
                manager.pool().set_header(at::RECORDING_START, begin);
                manager.is_maintenance_idle().then_some(())
            })
            .is_some()
        }));
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
    local::with_manager(|manager| manager.pool().define(definition).ok()).unwrap()
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

fn add(kind: Kind, at: Timestamp, site: DefinitionId, thread: Option<u64>, body: &[u8]) {
    let head = head_of(kind, Timing::Instant(at), thread.is_some(), site);
    let head = with_length(head, usize::try_from(pool_tag()).unwrap());
    let front = Front {
        head,
        fixed: [at.raw(), thread.unwrap_or(0), 0],
    };
    let encode = |room: PayloadBuffer<'_>| {
        let Some(place) = room.bytes.get_mut(..body.len()) else {
            return Ok(None);
        };
        place.copy_from_slice(body);
        Ok(Some(body.len()))
    };
    local::with_recorder(|recorder| recorder.with_tail(front, "", encode));
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
    let mut body = vec![0; 4096];
    let mut len = stack::write(&mut body, frames.iter().copied(), false).unwrap();
    if let Some(title) = title {
        len += payload::encode(&Job { title }, &mut body[len..]).unwrap();
    }
    add(
        Kind::MarkerWithStack,
        at,
        site,
        thread.map(ThreadId::get),
        &body[..len],
    );
}

pub(super) fn allocation(at: Timestamp, bytes: i64, address: u64, frames: &[Frame]) {
    let mut body = vec![0; 4096];
    let len = write_allocation(&mut body, bytes, address, frames.iter().copied(), false).unwrap();
    add(Kind::Allocation, at, DefinitionId::NONE, None, &body[..len]);
}

pub(super) fn counters(at: Timestamp, values: &[CounterValue]) {
    let mut body = Vec::new();
    for value in values {
        let mut room = [0; COUNTER_VALUE_BYTES];
        write_counter(&mut room, *value);
        body.extend_from_slice(&room);
    }
    add(Kind::Counters, at, DefinitionId::NONE, None, &body);
}

pub(super) fn overhead(entry: &OverheadEntry) {
    add(
        Kind::Overhead,
        entry.at,
        DefinitionId::NONE,
        None,
        &entry.encode(),
    );
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
