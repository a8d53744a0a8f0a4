//! A call site that is made at run time, with a payload type of its own.
//!
//! Used by the packages under `integrations/`: their call sites are described by another library,
//! and their payloads are values that this library passes one by one. Costs as much as a marker
//! with a typed payload. Invariants: the schema of a site never changes; its keys are those of the
//! schema's fields, in this order; a name of a type stands for one schema in all processes.

use super::payload::{FieldWriter, PayloadError};
use super::record::{Site, add_named, front, with_site};
use super::site::{MarkerSite, define_schema};
use super::{MarkerOptions, MarkerTiming};
use crate::category::CategoryPair;
use crate::entry_counts::DropReason;
use crate::ids::DefinitionId;
use crate::manager::ChunkManager;
use crate::pool::tag::pool_tag;
use crate::record::local;
use crate::record::recorder::Recorder;
use crate::record::session_state;
use crate::record::writer::{Front, PayloadBuffer};
use crate::schema::MarkerSchema;

/// A call site that is made at run time. It is usually leaked, because it lives as long as the code
/// that it describes.
#[derive(Debug)]
pub struct RuntimeSite {
    site: MarkerSite,
    category: CategoryPair,
    schema: MarkerSchema,
}

impl RuntimeSite {
    /// A site whose markers have this name, and the fields of this schema.
    pub fn new(
        name: &'static str,
        category: impl Into<CategoryPair>,
        schema: MarkerSchema,
    ) -> Self {
        Self {
            site: MarkerSite::new(name),
            category: category.into(),
            schema,
        }
    }

    /// Its category.
    pub const fn category(&self) -> CategoryPair {
        self.category
    }

    /// Records a marker if a session runs. `write` writes one value per field of the schema; it is
    /// called again if the room does not suffice. The options must not ask for a stack.
    #[inline]
    pub fn add<F>(&self, options: MarkerOptions, mut write: F)
    where
        F: FnMut(&mut FieldWriter<'_>) -> Result<(), PayloadError>,
    {
        if !session_state::is_active() {
            return;
        }
        let front = front(options.timing.resolve(), options.thread);
        let tag = pool_tag();
        match self.site.known(tag) {
            Some(number) => {
                let site = Site { number, tag };
                local::with_recorder(|recorder| add_written(recorder, site, front, &mut write));
            }
            None => self.add_first(front.copied(), &mut write),
        }
    }

    #[cold]
    #[inline(never)]
    fn add_first<F>(&self, front: Front, write: &mut F)
    where
        F: FnMut(&mut FieldWriter<'_>) -> Result<(), PayloadError>,
    {
        let define = |manager: &ChunkManager| self.define(manager);
        with_site(define, |recorder, site| {
            add_written(recorder, site, front, write);
        });
    }

    fn define(&self, manager: &ChunkManager) -> Result<DefinitionId, DropReason> {
        let keys = self.schema.fields().map(|field| field.key.clone());
        self.site.define(manager, self.category, |manager| {
            define_schema(manager, &self.schema, keys.collect())
        })
    }
}

#[inline]
fn add_written<F>(recorder: &Recorder, site: Site, front: Front, write: &mut F)
where
    F: FnMut(&mut FieldWriter<'_>) -> Result<(), PayloadError>,
{
    add_named(recorder, site, front, "", |room: PayloadBuffer<'_>| {
        let mut fields = FieldWriter::new(room.bytes);
        match write(&mut fields) {
            Ok(()) => Ok(Some(fields.written())),
            Err(PayloadError::NoRoom) => Ok(None),
            Err(_) => Err(()),
        }
    });
}

/// Records the end of a numbered span whose start is a marker of `site`.
#[inline]
pub fn end_span(site: &RuntimeSite, number: u64) {
    let options = super::span_number::options_of_span(number, MarkerTiming::IntervalEnd);
    site.add(options, |fields| fields.u64(number));
}

/// Counts an entry for which there is no call site, because there are too many.
pub fn count_without_site() {
    if session_state::is_active() {
        local::count_in_process_row(DropReason::NoDefinitions);
    }
}
