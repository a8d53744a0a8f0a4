//! The second pass through an input: threads go to the output, everything else to the lists.

use std::collections::HashMap;
use std::io::Write;

use profiler_json::JsonWriter;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny};

use super::MergeCounts;
use super::categories::{Categories, CategoryNumbers};
use super::input::{Input, InputTables, unlike};
use super::list_changes::ListChanges;
use super::lists::Lists;
use super::meta::Member;
use super::payload::PayloadChanges;
use super::schemas::{PayloadPlans, Schemas};
use super::tables::{RowNumbers, Tables};
use super::threads::{RewriteThread, ThreadChanges};
use profiler_reader::{Object, PartId, ReadError, Visit};

/// What all threads of the merged profile refer to.
#[derive(Debug, Default)]
pub(super) struct SharedContents {
    pub(super) tables: Tables,
    pub(super) categories: Categories,
    pub(super) schemas: Schemas,
}

impl SharedContents {
    /// Adds what an input has read in the first pass. Returns where it is now.
    ///
    /// # Errors
    /// The tables of the input refer to rows that do not exist.
    pub(super) fn add(
        &mut self,
        input: &mut Input,
        tables: InputTables,
    ) -> Result<InputNumbers, ReadError> {
        let categories = self.categories.add(input.meta.remove("categories"));
        let plans = self.schemas.add(input.meta.remove("markerSchema"));
        let rows = self.tables.add(&tables.shared, tables.libs, &categories);
        let rows = rows.map_err(|why| unlike(&input.path, &why))?;
        Ok(InputNumbers {
            rows,
            categories,
            plans,
        })
    }
}

/// Where the contents of one input are in the shared ones.
#[derive(Debug, Default)]
pub(super) struct InputNumbers {
    pub(super) rows: RowNumbers,
    pub(super) categories: CategoryNumbers,
    pub(super) plans: PayloadPlans,
}

/// See the [module](self).
pub(super) struct SecondPass<'p, W: Write> {
    threads: ThreadChanges<'p>,
    changes: ListChanges<'p>,
    shared: &'p mut SharedContents,
    lists: &'p mut Lists,
    out: &'p mut JsonWriter<W>,
}

impl<'p, W: Write> SecondPass<'p, W> {
    pub(super) fn new(
        numbers: &'p InputNumbers,
        member: &'p Member,
        shared: &'p mut SharedContents,
        lists: &'p mut Lists,
        out: &'p mut JsonWriter<W>,
    ) -> Self {
        let payloads = PayloadChanges {
            plans: &numbers.plans,
            names: &member.names,
            numbers: &numbers.rows,
            offset_ns: member.offset_ns,
            flows: HashMap::new(),
        };
        Self {
            threads: ThreadChanges {
                payloads,
                categories: &numbers.categories,
                counts: MergeCounts::default(),
            },
            changes: ListChanges {
                names: &member.names,
                offset_ns: member.offset_ns,
                first_thread: member.first_thread,
            },
            shared,
            lists,
            out,
        }
    }

    /// What was written.
    pub(super) const fn counts(&self) -> MergeCounts {
        self.threads.counts
    }
}

impl<W: Write> Visit for SecondPass<'_, W> {
    fn value<'de, D: Deserializer<'de>>(
        &mut self,
        at: PartId,
        key: &str,
        from: D,
    ) -> Result<(), D::Error> {
        match key {
            "meta" | "libs" | "shared" => IgnoredAny::deserialize(from).map(drop),
            _ if at != PartId(0) => IgnoredAny::deserialize(from).map(drop),
            _ => self.lists.add(key, self.changes, from),
        }
    }

    fn thread<'de, D: Deserializer<'de>>(&mut self, at: PartId, from: D) -> Result<(), D::Error> {
        if at != PartId(0) {
            return IgnoredAny::deserialize(from).map(drop);
        }
        self.threads.counts.threads += 1;
        self.out.begin_object();
        Object(&mut RewriteThread {
            changes: &mut self.threads,
            strings: &mut self.shared.tables.strings,
            out: &mut *self.out,
        })
        .deserialize(from)?;
        self.out.end_object();
        Ok(())
    }
}
