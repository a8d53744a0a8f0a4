//! The logs of an input in the second pass: the entry counts of its processes, their verdicts, and
//! the events of its capture.
//!
//! Used by [`super::lists`]. Logs have the id of a process as their key. Invariant: a process that
//! a log lists has the name that its threads have, and its host.

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess};

use super::list_changes::ListChanges;
use super::rewrite::{Num, Rewrite, change, copy};
use profiler_files::spill::Spilled;
use profiler_reader::{Items, Members, Object, OptionalList};

/// Writes logs, which have the id of a process as their key.
pub(super) struct LogsByProcess<'o, 'a> {
    pub(super) changes: ListChanges<'a>,
    pub(super) out: &'o mut Spilled,
}

impl Members for LogsByProcess<'_, '_> {
    const NAME: &'static str = "logs";

    fn member<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        self.out.key(&self.changes.names.process_id(key));
        map.next_value_seed(LogObject {
            changes: self.changes,
            out: &mut *self.out,
            is_process: false,
            has_host: false,
        })
    }
}

/// Writes a log, or what a log says about one process.
struct LogObject<'o, 'a> {
    changes: ListChanges<'a>,
    out: &'o mut Spilled,
    is_process: bool,
    has_host: bool,
}

impl<'de> DeserializeSeed<'de> for LogObject<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(mut self, from: D) -> Result<(), D::Error> {
        self.out.begin_object();
        Object(&mut self).deserialize(from)?;
        let host = self.changes.names.only().filter(|_| self.is_process);
        self.out
            .entry_str_if("host", host.filter(|_| !self.has_host));
        self.out.end_object();
        Ok(())
    }
}

impl Members for LogObject<'_, '_> {
    const NAME: &'static str = "a log";

    fn member<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let ListChanges {
            names, offset_ns, ..
        } = self.changes;
        match key {
            "name" if self.is_process => {
                let name: String = map.next_value()?;
                self.out.entry_str(key, &names.process_name(&name));
                Ok(())
            }
            "host" if self.is_process => {
                self.has_host = true;
                let host: String = map.next_value()?;
                self.out.entry_str(key, names.host(&host));
                Ok(())
            }
            "events" | "processes" => {
                self.out.key(key);
                self.out.begin_array();
                let mut items = LogItems {
                    changes: self.changes,
                    out: &mut *self.out,
                    are_processes: key == "processes",
                };
                map.next_value_seed(OptionalList(&mut items))?;
                self.out.end_array();
                Ok(())
            }
            // As in Gecko, the keys of times end in this way.
            _ if key.ends_with("_TSms") => {
                change(key, map, self.out, |time| Ok(time.moved(offset_ns)))
            }
            _ => copy(key, map, self.out),
        }
    }
}

/// Writes the events of a log, each of which begins with its time, or the processes of a log.
struct LogItems<'o, 'a> {
    changes: ListChanges<'a>,
    out: &'o mut Spilled,
    are_processes: bool,
}

impl Items for LogItems<'_, '_> {
    const NAME: &'static str = "a list";

    fn item<'de, A: SeqAccess<'de>>(&mut self, items: &mut A) -> Result<bool, A::Error> {
        let (changes, out) = (self.changes, &mut *self.out);
        if self.are_processes {
            let process = LogObject {
                changes,
                out,
                is_process: true,
                has_host: false,
            };
            return Ok(items.next_element_seed(process)?.is_some());
        }
        let mut first = Some(changes.offset_ns);
        let change = &mut |num: Num| Ok(first.take().map_or(num, |ns| num.moved(ns)));
        Ok(items.next_element_seed(Rewrite { out, change })?.is_some())
    }
}
