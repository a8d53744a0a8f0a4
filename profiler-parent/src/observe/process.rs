//! The state of one observed process: the reader of its pool, its open spans, the names of its
//! threads.
//!
//! Owned by the reader thread, one per process that has not been read to its end. Invariant: no
//! request is sent to the process.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use profiler_core::ids::{ProcessId, ThreadId, ThreadIndex};
use profiler_core::internal::entry::{Entry, MarkerEntry, Timing};
use profiler_core::internal::reader::{Followed, Follower, Progress, ThreadInfo};
use profiler_core::time::{TimeConverter, Timestamp};
use profiler_sys::OwnFile;

use super::decode::{Names, Payload, Role, SiteInfo};
use super::event::{
    BatchClock, Detail, ObservedMarker, Origin, Shape, SharedText, SpanNumber, Value,
};
use super::filter::Head;
use super::spans::{OpenSpan, Spans};
use super::subscriber::{Subscriber, Tallies};
use crate::session_time::SessionNs;

/// Limit on the remembered thread names per process.
const MAX_THREADS: usize = 1 << 16;
/// Passes between two checks for exited threads that have open spans.
const EXIT_CHECK_PASSES: u64 = 5;

/// The parameters of one pass of the reader thread.
pub(super) struct Pass<'a> {
    pub(super) number: u64,
    pub(super) converter: TimeConverter,
    pub(super) clock: BatchClock,
    /// Threads of this process that serve observers, and are therefore not observed.
    pub(super) quiet: &'a BTreeSet<ThreadId>,
    pub(super) subscribers: &'a mut [Subscriber],
    pub(super) next_span: &'a mut u64,
    /// Limit on the bytes read from one process; the next pass reads the remaining entries.
    pub(super) budget: u64,
}

/// A process that is observed.
#[derive(Debug)]
pub(super) struct Watched {
    identity: Identity,
    follower: Option<Follower<Arc<OwnFile>>>,
    names: Names,
    spans: Spans,
    threads: HashMap<ThreadId, KnownThread>,
    progress: Progress,
    is_unreadable: bool,
}

/// A thread that has recorded something.
#[derive(Clone, Debug)]
struct KnownThread {
    name: SharedText,
    index: ThreadIndex,
    registered: Timestamp,
    /// The thread had exited when it was last checked.
    has_ended: bool,
}

#[derive(Clone, Debug)]
struct Identity {
    pid: ProcessId,
    name: SharedText,
    is_own: bool,
}

impl Watched {
    pub(super) fn new(pid: ProcessId, name: &str, is_own: bool, pool: &Arc<OwnFile>) -> Self {
        let follower = Follower::open(Arc::clone(pool)).ok();
        Self {
            identity: Identity {
                pid,
                name: name.into(),
                is_own,
            },
            is_unreadable: follower.is_none(),
            follower,
            names: Names::default(),
            spans: Spans::default(),
            threads: HashMap::new(),
            progress: Progress::default(),
        }
    }

    /// Reads the new entries, and passes them to the subscribers that want them.
    pub(super) fn advance(&mut self, pass: &mut Pass<'_>) {
        let Self {
            identity,
            follower,
            names,
            spans,
            threads,
            ..
        } = self;
        let Some(follower) = follower else { return };
        let advanced = follower.advance_within(pass.budget, |one| {
            let Entry::Marker(marker) = &one.entry else {
                return;
            };
            if !(identity.is_own && pass.quiet.contains(&one.thread.tid)) {
                note_thread(one.thread, threads, spans);
                let site = names.site(marker.site, one.definitions);
                Taking {
                    identity,
                    spans,
                    threads,
                    pass,
                    site: &site,
                }
                .take(one, marker);
            }
        });
        match advanced {
            Ok(progress) => {
                self.progress = progress;
                self.is_unreadable |= progress.damaged > 0;
            }
            Err(_) => (self.follower, self.is_unreadable) = (None, true),
        }
        if self.progress.is_behind {
            return; // the missing entries may still arrive
        }
        self.spans.end_pass(pass.number);
        if pass.number.is_multiple_of(EXIT_CHECK_PASSES) {
            self.forget_exited_threads();
        }
    }

    /// Drops the unnumbered open spans of exited threads. A thread may record until it exits, so
    /// its spans are dropped one check after its exit was seen.
    fn forget_exited_threads(&mut self) {
        let Some(follower) = &self.follower else {
            return;
        };
        for tid in self.spans.threads().collect::<Vec<_>>() {
            let Some(known) = self.threads.get_mut(&tid) else {
                continue;
            };
            if known.has_ended {
                self.spans.forget_thread(tid);
            } else if let Ok(thread) = follower.thread(known.index) {
                let is_there = |thread: &ThreadInfo| {
                    thread.tid == tid
                        && thread.registered == known.registered
                        && thread.ended.is_none()
                };
                known.has_ended = !thread.as_ref().is_some_and(is_there);
            }
        }
    }

    /// Reads the process to its end. Spans that are still open are reported as unfinished.
    pub(super) fn conclude(&mut self, pass: &mut Pass<'_>) {
        pass.budget = u64::MAX;
        self.advance(pass);
        self.advance(pass); // now the number of evicted entries is known
        for (number, span) in self.spans.take_all() {
            let marker = span.as_shown(number, pass.converter);
            let marker = ObservedMarker {
                unfinished: true,
                ..marker
            };
            let now = Timestamp::now();
            deliver(
                pass,
                &marker,
                span.start,
                now,
                since_ns(pass.clock.now, marker.start),
            );
        }
    }

    /// The open spans of the process.
    pub(super) fn open(&self) -> impl Iterator<Item = (SpanNumber, &OpenSpan)> {
        self.spans.open()
    }

    pub(super) fn tallies(&self) -> Tallies {
        Tallies {
            missed: self.progress.missed,
            orphans: self.spans.orphans(),
            unreadable: u64::from(self.is_unreadable),
        }
    }
}

/// Remembers the name of a thread. If an earlier thread had the same id, drops its open spans.
fn note_thread(
    thread: &ThreadInfo,
    threads: &mut HashMap<ThreadId, KnownThread>,
    spans: &mut Spans,
) {
    let known = threads.get(&thread.tid);
    let is_same = known.is_some_and(|known| known.registered == thread.registered);
    if is_same && known.is_some_and(|known| *known.name == *thread.name) {
        return;
    }
    if known.is_some() && !is_same {
        spans.forget_thread(thread.tid);
    }
    if known.is_some() || threads.len() < MAX_THREADS {
        let ThreadInfo {
            index, registered, ..
        } = *thread;
        let name = thread.name.as_str().into();
        threads.insert(
            thread.tid,
            KnownThread {
                name,
                index,
                registered,
                has_ended: false,
            },
        );
    }
}

fn since_ns(end: SessionNs, start: SessionNs) -> u64 {
    u64::try_from(end.0.saturating_sub(start.0)).unwrap_or(0)
}

/// Passes a marker to all subscribers that want it.
fn deliver(
    pass: &mut Pass<'_>,
    marker: &ObservedMarker,
    began: Timestamp,
    last: Timestamp,
    duration_ns: u64,
) {
    let head = Head::of(marker, duration_ns);
    for subscriber in pass
        .subscribers
        .iter_mut()
        .filter(|one| one.wants(&head, last))
    {
        subscriber.take(marker, began, pass.clock);
    }
}

/// Processes one marker for the subscribers.
struct Taking<'a, 'p> {
    identity: &'a Identity,
    spans: &'a mut Spans,
    threads: &'a HashMap<ThreadId, KnownThread>,
    pass: &'a mut Pass<'p>,
    site: &'a SiteInfo,
}

impl Taking<'_, '_> {
    fn take(&mut self, one: &Followed<'_>, marker: &MarkerEntry<'_>) {
        let thread = marker.foreign.unwrap_or(one.thread.tid);
        match (marker.timing, self.site.role) {
            (Timing::Instant(_), Role::Detail) => self.detail(marker),
            (Timing::Instant(at), _) => self.finished(marker, thread, (at, at), Shape::Instant),
            (Timing::Interval(start, end), _) => {
                // The program chooses both times.
                self.finished(marker, thread, (start, end.max(start)), Shape::Interval)
            }
            (Timing::Start(at), _) => self.start(marker, thread, at),
            (Timing::End(at), Role::Span) => {
                let Some(id) = Payload::of(marker, self.site).span() else {
                    return;
                };
                let span = self.spans.end_numbered(id, at, self.pass.number);
                self.ended(span, at);
            }
            (Timing::End(at), _) => {
                let label = self.label(&Payload::of(marker, self.site));
                let span = self
                    .spans
                    .end_named(thread, &self.name(marker), label.as_deref());
                self.ended(span, at);
            }
        }
    }

    fn name(&self, marker: &MarkerEntry<'_>) -> SharedText {
        self.site.name_of(marker).0
    }

    /// The text that distinguishes timers of the same name.
    fn label(&self, payload: &Payload) -> Option<String> {
        let is_text = self.site.role == Role::Text;
        payload.text("name").filter(|_| is_text).map(str::to_owned)
    }

    fn origin(&self, thread: ThreadId) -> Origin {
        let known = self.threads.get(&thread).map(|known| known.name.clone());
        Origin {
            process: self.identity.pid,
            process_name: self.identity.name.clone(),
            thread,
            thread_name: known.unwrap_or_else(|| "".into()),
        }
    }

    fn groups(&self, thread: ThreadId, payload: Option<&Payload>) -> Vec<SharedText> {
        let mut groups = self.spans.groups(thread);
        groups.extend(payload.and_then(|payload| payload.group.clone()));
        groups
    }

    /// Reports a complete marker.
    fn finished(
        &mut self,
        marker: &MarkerEntry<'_>,
        thread: ThreadId,
        times: (Timestamp, Timestamp),
        shape: Shape,
    ) {
        let names_group = self.site.names_group();
        let payload = names_group.then(|| Payload::of(marker, self.site));
        let groups = self.groups(thread, payload.as_ref());
        let origin = self.origin(thread);
        let (name, is_cut) = self.site.name_of(marker);
        let [start, end] =
            [times.0, times.1].map(|at| SessionNs(self.pass.converter.since_start_ns(at)));
        let duration_ns = since_ns(end, start);
        let category = &self.site.category;
        let head = Head {
            origin: &origin,
            name: &name,
            category,
            groups: &groups,
            duration_ns,
        };
        if !self
            .pass
            .subscribers
            .iter()
            .any(|one| one.wants(&head, times.1))
        {
            return;
        }
        let payload = payload
            .unwrap_or_else(|| Payload::of(marker, self.site))
            .cut_if(is_cut);
        let category = category.clone();
        let head = ObservedHead {
            origin,
            name,
            category,
            groups,
        };
        let observed = head.marker(payload, start, Some(end), shape);
        deliver(self.pass, &observed, times.0, times.1, duration_ns);
    }

    fn start(&mut self, marker: &MarkerEntry<'_>, thread: ThreadId, at: Timestamp) {
        let payload = Payload::of(marker, self.site);
        let label = self.label(&payload);
        let group = payload.group.clone();
        let id = payload.span().filter(|_| self.site.role == Role::Span);
        let groups = self.groups(thread, Some(&payload));
        let (name, is_cut) = self.site.name_of(marker);
        let head = ObservedHead {
            origin: self.origin(thread),
            name,
            category: self.site.category.clone(),
            groups,
        };
        let start = SessionNs(self.pass.converter.since_start_ns(at));
        let payload = if id.is_some() {
            payload.without_number()
        } else {
            payload
        }
        .cut_if(is_cut);
        let observed = head.marker(payload, start, None, Shape::Span);
        let number = SpanNumber(*self.pass.next_span);
        *self.pass.next_span = self.pass.next_span.wrapping_add(1);
        let marker = ObservedMarker {
            span: Some(number),
            ..observed
        };
        let over = self.spans.start(
            number,
            OpenSpan {
                marker,
                start: at,
                id,
                label,
                group,
            },
        );
        if let Some((span, end)) = over {
            self.ended(Some(span), end);
        }
    }

    fn ended(&mut self, span: Option<OpenSpan>, at: Timestamp) {
        let Some(span) = span else { return };
        let convert = |at| SessionNs(self.pass.converter.since_start_ns(at));
        let (start, end) = (convert(span.start), convert(at.max(span.start)));
        let marker = ObservedMarker {
            start,
            end: Some(end),
            ..span.marker
        };
        deliver(self.pass, &marker, span.start, at, since_ns(end, start));
    }

    fn detail(&mut self, marker: &MarkerEntry<'_>) {
        let payload = Payload::of(marker, self.site);
        let value = match payload.value("value") {
            Some(Value::Text(text)) => text.clone(),
            _ => String::new(),
        };
        if let Some(id) = payload.span() {
            self.spans.detail(
                id,
                Detail {
                    name: self.name(marker),
                    value,
                },
            );
        }
    }
}

/// The parts of an observed marker that its thread and call site determine.
struct ObservedHead {
    origin: Origin,
    name: SharedText,
    category: SharedText,
    groups: Vec<SharedText>,
}

impl ObservedHead {
    /// The marker with this head; without `end` it is an open span.
    fn marker(
        self,
        payload: Payload,
        start: SessionNs,
        end: Option<SessionNs>,
        shape: Shape,
    ) -> ObservedMarker {
        ObservedMarker {
            origin: self.origin,
            name: self.name,
            category: self.category,
            shape,
            start,
            end,
            span: None,
            opened_before: false,
            unfinished: false,
            fields: payload.fields,
            flows: payload.flows,
            groups: self.groups,
            details: Vec::new(),
            cut: payload.cut,
        }
    }
}
