//! The second pass through the threads of an input: writes each with its new numbers and times.
//!
//! Called for every thread in the order of the file. Columns are changed while they are read, in
//! the order of the file, so no thread is held. Invariants: members that are not known are copied;
//! a number of a row that does not exist is an error.

use std::fmt;
use std::io::Write;

use profiler_json::{JsonWriter, StringTable};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::payload::PayloadChanges;
use super::rewrite::{Num, change, copy, move_first};
use super::{MergeCounts, categories::CategoryNumbers};
use profiler_reader::{Items, Members, Object, OptionalList, list_or_text, plain};

/// What changes in the threads of an input.
pub(super) struct ThreadChanges<'a> {
    pub(super) payloads: PayloadChanges<'a>,
    pub(super) categories: &'a CategoryNumbers,
    pub(super) counts: MergeCounts,
}

/// Writes one thread.
pub(super) struct RewriteThread<'c, 'a, W: Write> {
    pub(super) changes: &'c mut ThreadChanges<'a>,
    pub(super) strings: &'c mut StringTable,
    pub(super) out: &'c mut JsonWriter<W>,
}

impl ThreadChanges<'_> {
    const fn offset_ns(&self) -> i64 {
        self.payloads.offset_ns
    }

    fn stack(&self, number: Num) -> Result<Num, String> {
        number.remapped(&self.payloads.numbers.stacks, "stack")
    }

    fn text(&self, number: Num) -> Result<Num, String> {
        number.remapped(&self.payloads.numbers.strings, "text")
    }

    fn category(&self, number: Num) -> Result<Num, String> {
        number.remapped(&self.categories.rows, "category")
    }
}

impl<W: Write> RewriteThread<'_, '_, W> {
    /// Writes the name of a process, or the text that identifies it.
    fn process_text<'de, A: MapAccess<'de>>(
        &mut self,
        key: &str,
        map: &mut A,
    ) -> Result<(), A::Error> {
        let value: Value = map.next_value()?;
        let names = self.changes.payloads.names;
        self.out.key(key);
        match key {
            "pid" => self.out.string(&names.process_id(&plain(&value))),
            _ => match value.as_str() {
                Some(name) => self.out.string(&names.process_name(name)),
                None => self.out.null(),
            },
        }
        Ok(())
    }

    fn rows<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        self.out.key(key);
        self.out.begin_object();
        let mut rows = RewriteRows {
            is_samples: key == "samples",
            changes: &mut *self.changes,
            out: &mut *self.out,
        };
        map.next_value_seed(Object(&mut rows))?;
        self.out.end_object();
        Ok(())
    }

    fn markers<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        self.out.key(key);
        self.out.begin_object();
        let mut markers = RewriteMarkers {
            changes: &mut *self.changes,
            strings: &mut *self.strings,
            out: &mut *self.out,
        };
        map.next_value_seed(Object(&mut markers))?;
        self.out.end_object();
        Ok(())
    }
}

impl<W: Write> Members for RewriteThread<'_, '_, W> {
    const NAME: &'static str = "a thread";

    fn member<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let ns = self.changes.offset_ns();
        match key {
            "pid" | "processName" => self.process_text(key, map),
            "processStartupTime" | "processShutdownTime" | "registerTime" | "unregisterTime" => {
                change(key, map, self.out, |time| Ok(time.moved(ns)))
            }
            "samples" | "nativeAllocations" | "jsAllocations" => self.rows(key, map),
            "markers" => self.markers(key, map),
            "pausedRanges" => {
                self.out.key(key);
                self.out.begin_array();
                let mut ranges = RewriteRanges { ns, out: self.out };
                map.next_value_seed(OptionalList(&mut ranges))?;
                self.out.end_array();
                Ok(())
            }
            _ => copy(key, map, self.out),
        }
    }
}

/// Writes a table of samples or allocations.
struct RewriteRows<'c, 'a, W: Write> {
    is_samples: bool,
    changes: &'c mut ThreadChanges<'a>,
    out: &'c mut JsonWriter<W>,
}

impl<W: Write> Members for RewriteRows<'_, '_, W> {
    const NAME: &'static str = "samples";

    fn member<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let ns = self.changes.offset_ns();
        let mut rows = 0;
        match key {
            "stack" => change(key, map, self.out, |number| self.changes.stack(number))?,
            "time" => change(key, map, self.out, |time| Ok(time.moved(ns)))?,
            "timeDeltas" => move_first(key, map, self.out, ns)?,
            "length" => change(key, map, self.out, |length| {
                rows = length.as_count();
                Ok(length)
            })?,
            _ => copy(key, map, self.out)?,
        }
        if self.is_samples {
            self.changes.counts.samples += rows;
        }
        Ok(())
    }
}

/// Writes the markers of a thread.
struct RewriteMarkers<'c, 'a, W: Write> {
    changes: &'c mut ThreadChanges<'a>,
    strings: &'c mut StringTable,
    out: &'c mut JsonWriter<W>,
}

impl<W: Write> Members for RewriteMarkers<'_, '_, W> {
    const NAME: &'static str = "markers";

    fn member<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let ns = self.changes.offset_ns();
        let mut rows = 0;
        match key {
            "name" => change(key, map, self.out, |number| self.changes.text(number))?,
            "category" => change(key, map, self.out, |number| self.changes.category(number))?,
            // Viewers take 0 for a missing time.
            "startTime" | "endTime" => change(key, map, self.out, |time| {
                Ok(match time.moved(ns) {
                    Num::Nanos(0) => Num::Nanos(1),
                    moved => moved,
                })
            })?,
            "data" => {
                self.out.key(key);
                self.out.begin_array();
                map.next_value_seed(OptionalList(self))?;
                self.out.end_array();
            }
            "length" => change(key, map, self.out, |length| {
                rows = length.as_count();
                Ok(length)
            })?,
            _ => copy(key, map, self.out)?,
        }
        self.changes.counts.markers += rows;
        Ok(())
    }
}

impl<W: Write> Items for RewriteMarkers<'_, '_, W> {
    const NAME: &'static str = "payloads";

    fn item<'de, A: SeqAccess<'de>>(&mut self, items: &mut A) -> Result<bool, A::Error> {
        if self.out.is_failed() {
            return Err(A::Error::custom("the output failed"));
        }
        Ok(items.next_element_seed(PayloadItem(self))?.is_some())
    }
}

/// Writes one payload.
struct PayloadItem<'m, 'c, 'a, W: Write>(&'m mut RewriteMarkers<'c, 'a, W>);

impl<'de, W: Write> DeserializeSeed<'de> for PayloadItem<'_, '_, '_, W> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        list_or_text(from, self)
    }
}

impl<'de, W: Write> Visitor<'de> for PayloadItem<'_, '_, '_, W> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a payload")
    }

    fn visit_str<E: serde::de::Error>(self, payload: &str) -> Result<(), E> {
        let RewriteMarkers {
            changes,
            strings,
            out,
        } = self.0;
        let written = changes.payloads.write(payload, strings, out);
        written.map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        Err(A::Error::custom("a payload is a list"))
    }
}

/// Writes the ranges in which a thread was paused.
struct RewriteRanges<'o, W: Write> {
    ns: i64,
    out: &'o mut JsonWriter<W>,
}

impl<W: Write> Items for RewriteRanges<'_, W> {
    const NAME: &'static str = "ranges";

    fn item<'de, A: SeqAccess<'de>>(&mut self, items: &mut A) -> Result<bool, A::Error> {
        Ok(items.next_element_seed(RangeItem(self))?.is_some())
    }
}

struct RangeItem<'r, 'o, W: Write>(&'r mut RewriteRanges<'o, W>);

impl<'de, W: Write> DeserializeSeed<'de> for RangeItem<'_, '_, W> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(mut self, from: D) -> Result<(), D::Error> {
        self.0.out.begin_object();
        Object(&mut self).deserialize(from)?;
        self.0.out.end_object();
        Ok(())
    }
}

impl<W: Write> Members for RangeItem<'_, '_, W> {
    const NAME: &'static str = "a range";

    fn member<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let RewriteRanges { ns, out } = &mut *self.0;
        match key {
            "startTime" | "endTime" => change(key, map, out, |time| Ok(time.moved(*ns))),
            _ => copy(key, map, out),
        }
    }
}
