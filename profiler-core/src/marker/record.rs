//! Writes a marker call as entry words.
//!
//! Called by the macros and by user code. Macros resolve their site with two relaxed loads. The
//! functions with names made at run time store the name in the entry and find their site (category
//! and type) in a lock-free table.

use std::any::type_name;

use super::payload::{PayloadError, encode};
use super::site::{MarkerSite, define_type, no_type, site_definition};
use super::stack::add_with_stack;
use super::{MarkerOptions, MarkerStack, ProfilerMarker, Text};
use crate::category::CategoryPair;
use crate::definition_cell::DefinitionTable;
use crate::entry::{Timing, fixed_words, head, is_foreign, length_bits};
use crate::entry::{with_length, with_site as with_site_number};
use crate::entry_counts::DropReason;
use crate::ids::{DefinitionId, ThreadId};
use crate::manager::ChunkManager;
use crate::pool::tag::pool_tag;
use crate::record::local::{self, AddEntry};
use crate::record::recorder::Recorder;
use crate::record::session_state;
use crate::record::writer::{Front, PayloadBuffer, ThreadContext};

/// Sites of markers whose names are made at run time.
static DYNAMIC_SITES: DefinitionTable = DefinitionTable::new();

/// Records a marker with a name made at run time and no payload.
#[inline(never)]
pub fn add_untyped_marker(name: &str, category: impl Into<CategoryPair>, options: MarkerOptions) {
    if session_state::is_active() {
        let category = category.into();
        let define = |manager: &ChunkManager| dynamic_site(manager, category, "", no_type);
        add_with_name(name, options, Nothing, None, define);
    }
}

/// Records a marker with a name made at run time and a text.
#[inline(always)]
pub fn add_text_marker(
    name: &str,
    category: impl Into<CategoryPair>,
    options: MarkerOptions,
    text: &str,
) {
    add_marker(name, category, options, &Text { name: text });
}

/// Records a marker with a name made at run time and a typed payload.
#[inline(never)]
pub fn add_marker<M: ProfilerMarker>(
    name: &str,
    category: impl Into<CategoryPair>,
    options: MarkerOptions,
    payload: &M,
) {
    if session_state::is_active() {
        let category = category.into();
        let define = |manager: &ChunkManager| {
            dynamic_site(manager, category, type_name::<M>(), |manager| {
                define_type(manager, payload)
            })
        };
        add_with_name(name, options, Typed(payload), None, define);
    }
}

/// Records a marker with a name of its own. `site` is its site, if that is defined in the pool.
#[inline(always)]
fn add_with_name<P: Payload>(
    name: &str,
    options: MarkerOptions,
    payload: P,
    site: Option<Site>,
    define: impl FnOnce(&ChunkManager) -> Result<DefinitionId, DropReason>,
) {
    let encode = move |room: PayloadBuffer<'_>| payload.write(room.bytes);
    if options.stack != MarkerStack::None {
        let own = 0_u8;
        return add_with_stack(options, Some(address_of(&own)), name, define, encode);
    }
    let front = front(options.timing.resolve(), options.thread);
    let add = |recorder: &Recorder, site: Site| add_named(recorder, site, front, name, encode);
    match site {
        Some(site) => local::with_recorder(|recorder| add(recorder, site)),
        None => with_site(define, add),
    }
}

/// What a kind of marker writes after its fixed words. A copy is one word, which is passed in a
/// register.
pub(super) trait Payload: Copy {
    /// Writes it; `Ok(None)` if the room does not suffice.
    fn write(self, room: &mut [u8]) -> Result<Option<usize>, ()>;
}

/// No payload.
#[derive(Clone, Copy)]
struct Nothing;

impl Payload for Nothing {
    #[inline(always)]
    fn write(self, _: &mut [u8]) -> Result<Option<usize>, ()> {
        Ok(Some(0))
    }
}

/// A payload of a type that the program has defined.
struct Typed<'a, M>(&'a M);

impl<M> Clone for Typed<'_, M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Typed<'_, M> {}

impl<M: ProfilerMarker> Payload for Typed<'_, M> {
    #[inline]
    fn write(self, room: &mut [u8]) -> Result<Option<usize>, ()> {
        match encode(self.0, room) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(PayloadError::NoRoom) => Ok(None),
            Err(_) => Err(()),
        }
    }
}

impl MarkerSite {
    /// Records a marker of this site without payload. The caller has checked that a session runs.
    #[inline(always)]
    pub fn add(&'static self, category: impl Into<CategoryPair>, options: MarkerOptions) {
        if options.stack != MarkerStack::None {
            let define = |manager: &ChunkManager| self.define(manager, category.into(), no_type);
            return add_with_stack(options, None, "", define, |_: PayloadBuffer<'_>| {
                Ok(Some(0))
            });
        }
        let front = front_of(options.timing.resolve(), options.thread, false);
        let Some(site) = self.in_pool() else {
            return self.add_first(category.into(), front.copied());
        };
        local::add(FixedMarker { site, front });
    }

    #[cold]
    #[inline(never)]
    fn add_first(&'static self, category: CategoryPair, front: Front) {
        with_site(
            |manager| self.define(manager, category, no_type),
            |recorder, site| FixedMarker { site, front }.add_with(recorder),
        );
    }

    /// Records a marker of this site with a typed payload. The caller has checked that a session
    /// runs.
    #[inline(always)]
    pub fn add_typed<M: ProfilerMarker>(
        &'static self,
        category: impl Into<CategoryPair>,
        options: MarkerOptions,
        payload: &M,
    ) {
        let define = |manager: &ChunkManager| define_type(manager, payload);
        self.add_payload(category, options, Typed(payload), define);
    }

    /// Records a marker of this site. `define` defines the type of the payload.
    #[inline(always)]
    pub(super) fn add_payload<P: Payload>(
        &'static self,
        category: impl Into<CategoryPair>,
        options: MarkerOptions,
        payload: P,
        define: impl FnOnce(&ChunkManager) -> Result<DefinitionId, DropReason>,
    ) {
        let define = |manager: &ChunkManager| self.define(manager, category.into(), define);
        if options.stack != MarkerStack::None {
            return add_with_stack(options, None, "", define, |room: PayloadBuffer<'_>| {
                payload.write(room.bytes)
            });
        }
        self.add_plain(options, payload, define);
    }

    #[inline]
    fn add_plain<P: Payload>(
        &'static self,
        options: MarkerOptions,
        payload: P,
        define: impl FnOnce(&ChunkManager) -> Result<DefinitionId, DropReason>,
    ) {
        let front = front(options.timing.resolve(), options.thread);
        match self.in_pool() {
            Some(site) => add_of_site(site, &front, payload),
            None => add_first(front.copied(), payload, define),
        }
    }

    /// Records a marker of this site, if the site is known in the pool.
    #[inline]
    pub(super) fn add_if_known<P: Payload>(&'static self, options: MarkerOptions, payload: P) {
        if let Some(site) = self.in_pool() {
            let front = front(options.timing.resolve(), options.thread);
            add_of_site(site, &front, payload);
        }
    }

    /// The site in the pool that this process records into, if it is defined there.
    #[inline(always)]
    fn in_pool(&self) -> Option<Site> {
        let tag = pool_tag();
        self.known(tag).map(|number| Site { number, tag })
    }

    /// Records a marker with this name and no payload. This site has no name of its own. The caller
    /// has checked that a session runs.
    #[inline]
    pub fn add_named(&self, name: &str, category: impl Into<CategoryPair>, options: MarkerOptions) {
        let define = |manager: &ChunkManager| self.define(manager, category.into(), no_type);
        add_with_name(name, options, Nothing, self.in_pool(), define);
    }

    /// Like [`MarkerSite::add_named`], with a typed payload.
    #[inline]
    pub fn add_named_typed<M: ProfilerMarker>(
        &self,
        name: &str,
        category: impl Into<CategoryPair>,
        options: MarkerOptions,
        payload: &M,
    ) {
        let define = |manager: &ChunkManager| {
            self.define(manager, category.into(), |manager| {
                define_type(manager, payload)
            })
        };
        add_with_name(name, options, Typed(payload), self.in_pool(), define);
    }

    /// Records a marker of this site with a text. The caller has checked that a session runs.
    #[inline(always)]
    pub fn add_text(
        &'static self,
        category: impl Into<CategoryPair>,
        options: MarkerOptions,
        text: &str,
    ) {
        self.add_typed(category, options, &Text { name: text });
    }
}

/// Records a marker of a site that is not defined in the pool yet: joins the session, defines the
/// site, then records. Any failure is counted, also a panic of the payload or its schema.
#[inline(never)]
pub(super) fn with_site(
    define: impl FnOnce(&ChunkManager) -> Result<DefinitionId, DropReason>,
    add: impl FnOnce(&Recorder, Site),
) {
    local::with_recorder(|recorder| {
        let site = recorder.with_home(|home| {
            if !home.selected {
                return None;
            }
            let panicked = CountOnDrop(home, DropReason::Unencodable);
            let paused = session_state::word() & session_state::PAUSED != 0;
            let site = if paused {
                Err(DropReason::Paused)
            } else {
                define(&home.manager)
            };
            std::mem::forget(panicked);
            let counted = site.map_err(|reason| CountOnDrop(home, reason));
            counted.ok().map(|number| Site {
                number,
                tag: home.manager.tag(),
            })
        });
        if let Some(site) = site.flatten() {
            add(recorder, site);
        }
    });
}

/// Counts a dropped entry, for this reason, when the guard itself is dropped.
struct CountOnDrop<'a>(&'a ThreadContext, DropReason);

impl Drop for CountOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(row) = self.0.row() {
            row.count_drop(self.1);
        }
    }
}

/// A call site's number, and the tag of its pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Site {
    pub(super) number: DefinitionId,
    pub(super) tag: u64,
}

impl Site {
    /// The first word of an entry with a tail, with its site. The pool's tag is stored in place of
    /// the length until that is known, which saves a register.
    #[inline(always)]
    pub(super) const fn complete(self, head: u64) -> u64 {
        with_site_number(head, self.number) | length_bits(self.tag)
    }
}

/// A marker without payload, whose entry has a fixed size.
#[derive(Clone, Copy)]
struct FixedMarker {
    site: Site,
    front: Front,
}

impl AddEntry for FixedMarker {
    #[inline(always)]
    fn add_with(self, recorder: &Recorder) {
        let [first, second, third] = self.front.fixed;
        match fixed_words(self.front.head) {
            1 => self.add_words(recorder, [self.head(2), first]),
            2 => self.add_words(recorder, [self.head(3), first, second]),
            _ => self.add_words(recorder, [self.head(4), first, second, third]),
        }
    }
}

impl FixedMarker {
    #[inline(always)]
    const fn head(self, words: usize) -> u64 {
        with_length(with_site_number(self.front.head, self.site.number), words)
    }

    #[inline(always)]
    fn add_words<const N: usize>(self, recorder: &Recorder, words: [u64; N]) {
        recorder.fixed(words, is_foreign(self.front.head), self.site.tag);
    }
}

/// The fixed words of an entry with a tail, without the site.
#[inline(always)]
pub(super) fn front(timing: Timing, thread: Option<ThreadId>) -> Front {
    front_of(timing, thread, true)
}

#[inline(always)]
fn front_of(timing: Timing, thread: Option<ThreadId>, has_tail: bool) -> Front {
    let thread_word = thread.map_or(0, ThreadId::get);
    let fixed = match timing {
        Timing::Interval(start, end) => [start.raw(), end.raw(), thread_word],
        Timing::Instant(at) | Timing::Start(at) | Timing::End(at) => [at.raw(), thread_word, 0],
    };
    Front {
        head: head(0, timing, has_tail, thread.is_some(), DefinitionId::NONE),
        fixed,
    }
}

/// Adds an entry with a name and a payload that `encode` writes.
#[inline]
pub(super) fn add_named<F>(recorder: &Recorder, site: Site, front: Front, name: &str, encode: F)
where
    F: FnMut(PayloadBuffer<'_>) -> Result<Option<usize>, ()>,
{
    let front = Front {
        head: site.complete(front.head),
        ..front
    };
    recorder.with_tail(front, name, encode);
}

/// Adds an entry of a site that is defined in the pool.
#[inline(always)]
fn add_of_site<P: Payload>(site: Site, front: &Front, payload: P) {
    let [first, second, third] = front.fixed;
    let head = site.complete(front.head);
    local::with_recorder(|recorder| add_encoded(recorder, head, first, second, third, payload));
}

/// Adds an entry of a site that is not defined in the pool yet.
#[cold]
#[inline(never)]
fn add_first<P: Payload>(
    front: Front,
    payload: P,
    define: impl FnOnce(&ChunkManager) -> Result<DefinitionId, DropReason>,
) {
    let [first, second, third] = front.fixed;
    with_site(define, |recorder, site| {
        let head = site.complete(front.head);
        add_encoded(recorder, head, first, second, third, payload);
    });
}

/// Adds an entry with a payload: one function per type of payload, not one per call.
///
/// Its arguments are single words, which are passed in registers. A struct would be passed on the
/// stack, stored word by word and loaded in pairs, and such a load waits for all stores before it.
#[inline(never)]
fn add_encoded<P: Payload>(
    recorder: &Recorder,
    head: u64,
    first: u64,
    second: u64,
    third: u64,
    payload: P,
) {
    let front = Front {
        head,
        fixed: [first, second, third],
    };
    recorder.with_tail(front, "", |room: PayloadBuffer<'_>| {
        payload.write(room.bytes)
    });
}

/// The address of a local variable on the stack.
pub(super) fn address_of(local: &u8) -> u64 {
    std::ptr::from_ref(local).addr() as u64
}

fn dynamic_site(
    manager: &ChunkManager,
    category: CategoryPair,
    type_name: &'static str,
    marker_type: impl FnOnce(&ChunkManager) -> Result<DefinitionId, DropReason>,
) -> Result<DefinitionId, DropReason> {
    // The type's own name, not the one of its schema, which two types may share.
    let key = (
        category.category().name(),
        category.subcategory(),
        type_name,
    );
    DYNAMIC_SITES.get_or_define(manager, &key, || {
        site_definition(manager, "", category, marker_type)
    })
}
