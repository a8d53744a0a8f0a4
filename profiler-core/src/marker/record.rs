//! From a marker call to entry words.
//!
//! Called by the macros and by user code. The static ways resolve their site with two relaxed
//! loads; the functions with names made at run time keep the name in the entry and find their
//! site (category and type) in a lock-free table.

use super::category::CategoryPair;
use super::options::MarkerOptions;
use super::payload::{PayloadError, encode};
use super::site::{MarkerSite, define_type, no_type, site_definition};
use super::{ProfilerMarker, Text};
use crate::definition_cell::{DefinitionTable, pool_tag};
use crate::entry::{Timing, head};
use crate::ids::{DefinitionId, ThreadId};
use crate::losses::DropReason;
use crate::manager::ChunkManager;
use crate::record::recorder::{Recorder, Tail};
use crate::record::{gate, local};

/// Sites of markers whose names are made at run time.
static DYNAMIC_SITES: DefinitionTable = DefinitionTable::new();

/// Records a marker with a name made at run time and no payload.
pub fn add_untyped_marker(name: &str, category: impl Into<CategoryPair>, options: MarkerOptions) {
    if !gate::is_active() {
        return;
    }
    let (timing, category) = (options.timing.resolve(), category.into());
    let site = |manager: &ChunkManager| dynamic_site(manager, category, "", no_type);
    with_site(site, |recorder, site| {
        add_with_tail(recorder, site, timing, options.thread, name, |_: &mut [u8]| Ok(Some(0)));
    });
}

/// Records a marker with a name made at run time and a text.
pub fn add_text_marker(name: &str, category: impl Into<CategoryPair>, options: MarkerOptions, text: &str) {
    add_marker(name, category, options, &Text { name: text });
}

/// Records a marker with a name made at run time and a typed payload.
pub fn add_marker<M: ProfilerMarker>(
    name: &str,
    category: impl Into<CategoryPair>,
    options: MarkerOptions,
    payload: &M,
) {
    if !gate::is_active() {
        return;
    }
    let (timing, category) = (options.timing.resolve(), category.into());
    let site = |manager: &ChunkManager| {
        dynamic_site(manager, category, M::TYPE_NAME, |manager| define_type(manager, payload))
    };
    with_site(site, |recorder, site| {
        add_with_tail(recorder, site, timing, options.thread, name, |room| encoded(payload, room));
    });
}

impl MarkerSite {
    /// Records a marker of this site without payload. The gate was found open.
    #[inline(always)]
    pub fn add(&'static self, category: impl Into<CategoryPair>, options: MarkerOptions) {
        let timing = options.timing.resolve();
        let Some(site) = self.known(pool_tag()) else {
            return self.add_first(category.into(), timing, options.thread);
        };
        local::with_recorder(|recorder| add_fixed(recorder, site, timing, options.thread));
    }

    #[cold]
    #[inline(never)]
    fn add_first(&'static self, category: CategoryPair, timing: Timing, thread: Option<ThreadId>) {
        with_site(
            |manager| self.define(manager, category, no_type),
            |recorder, site| add_fixed(recorder, site, timing, thread),
        );
    }

    /// Records a marker of this site with a typed payload. The gate was found open.
    #[inline]
    pub fn add_typed<M: ProfilerMarker>(
        &'static self,
        category: impl Into<CategoryPair>,
        options: MarkerOptions,
        payload: &M,
    ) {
        let timing = options.timing.resolve();
        let add = |recorder: &Recorder, site: DefinitionId| {
            add_with_tail(recorder, site, timing, options.thread, "", |room| encoded(payload, room));
        };
        if let Some(site) = self.known(pool_tag()) {
            return local::with_recorder(|recorder| add(recorder, site));
        }
        let category = category.into();
        with_site(|manager| self.define(manager, category, |manager| define_type(manager, payload)), add);
    }

    /// Records a marker of this site with a text. The gate was found open.
    #[inline]
    pub fn add_text(&'static self, category: impl Into<CategoryPair>, options: MarkerOptions, text: &str) {
        self.add_typed(category, options, &Text { name: text });
    }
}

/// The way of a site that the pool does not know yet: joins the session, makes the site known,
/// then records. Without room for the names the marker is dropped and counted.
#[inline(never)]
fn with_site(
    define: impl FnOnce(&ChunkManager) -> Option<DefinitionId>,
    add: impl FnOnce(&Recorder, DefinitionId),
) {
    local::with_recorder(|recorder| {
        let site = recorder.with_home(|home| {
            if !home.selected || gate::word() & gate::PAUSED != 0 {
                return Some(DefinitionId::NONE);
            }
            let site = define(&home.manager);
            if let (None, Some(row)) = (site, home.manager.pool().thread_row(home.row)) {
                row.count_drop(DropReason::NoDefinitions);
            }
            site
        });
        if let Some(Some(site)) = site {
            add(recorder, site);
        }
    });
}

#[inline(always)]
fn add_fixed(recorder: &Recorder, site: DefinitionId, timing: Timing, thread: Option<ThreadId>) {
    let Some(thread) = thread else { return add_plain(recorder, site, timing) };
    match timing {
        Timing::Interval(start, end) => {
            let first = head(4, timing, false, true, site);
            recorder.fixed([first, start.raw(), end.raw(), thread.get()], true);
        }
        Timing::Instant(at) | Timing::Start(at) | Timing::End(at) => {
            recorder.fixed([head(3, timing, false, true, site), at.raw(), thread.get()], true);
        }
    }
}

#[inline(always)]
fn add_plain(recorder: &Recorder, site: DefinitionId, timing: Timing) {
    match timing {
        Timing::Interval(start, end) => {
            recorder.fixed([head(3, timing, false, false, site), start.raw(), end.raw()], false);
        }
        Timing::Instant(at) | Timing::Start(at) | Timing::End(at) => {
            recorder.fixed([head(2, timing, false, false, site), at.raw()], false);
        }
    }
}

#[inline]
fn add_with_tail<F>(
    recorder: &Recorder,
    site: DefinitionId,
    timing: Timing,
    thread: Option<ThreadId>,
    name: &str,
    encode: F,
) where
    F: FnMut(&mut [u8]) -> Result<Option<usize>, ()>,
{
    let (first, second) = match timing {
        Timing::Interval(start, end) => (start, Some(end)),
        Timing::Instant(at) | Timing::Start(at) | Timing::End(at) => (at, None),
    };
    let mut fixed = [first.raw(), 0, 0];
    let mut used = 1;
    for word in second.map(|end| end.raw()).into_iter().chain(thread.map(ThreadId::get)) {
        if let Some(place) = fixed.get_mut(used) {
            *place = word;
            used += 1;
        }
    }
    let head = |words: usize| head(words, timing, true, thread.is_some(), site);
    recorder.with_tail(head, fixed.get(..used).unwrap_or_default(), Tail { name, encode }, thread.is_some());
}

#[inline]
fn encoded<M: ProfilerMarker>(payload: &M, room: &mut [u8]) -> Result<Option<usize>, ()> {
    match encode(payload, room) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(PayloadError::NoRoom) => Ok(None),
        Err(_) => Err(()),
    }
}

fn dynamic_site(
    manager: &ChunkManager,
    category: CategoryPair,
    type_name: &str,
    marker_type: impl FnOnce(&ChunkManager) -> Option<DefinitionId>,
) -> Option<DefinitionId> {
    let key = (category.category().name(), category.subcategory(), type_name);
    DYNAMIC_SITES.get_or_define(manager, &key, || site_definition(manager, "", category, marker_type))
}
