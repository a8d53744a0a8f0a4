//! The second pass through everything of an input besides its threads: counters, the overhead of
//! the profiler, logs.
//!
//! The threads of all inputs are one list in the merged profile, so these lists are kept until all
//! threads are written. Invariants: they are kept in files if they are long; the number of these
//! files is fixed; a member that is not known is kept, under its name or, if there are several of
//! the name, under `NAME (2)` and so on.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use profiler_json::JsonWriter;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess};
use serde_json::Value;

use super::MergeError;
use super::list_changes::ListChanges;
use super::logs::LogsByProcess;
use super::naming::UniqueNames;
use super::rewrite::{Rewrite, change, copy, move_first};
use profiler_files::spill::{Spilled, spilled, write_spilled, write_spilled_members};
use profiler_reader::{Items, Members, Object, OptionalList, plain};

/// What the lists of all inputs have become.
#[derive(Debug)]
pub(super) struct Lists {
    directory: PathBuf,
    counters: Spilled,
    overhead: Spilled,
    pages: Option<Spilled>,
    profiling_log: Spilled,
    gathering_log: Spilled,
    /// Members that are not known, with their names, without the braces of their object.
    others: Spilled,
    names_of_others: UniqueNames,
}

fn list_in(directory: &Path) -> Spilled {
    let mut list = spilled(directory);
    list.begin_array();
    list
}

fn object_in(directory: &Path) -> Spilled {
    let mut object = spilled(directory);
    object.begin_object();
    object
}

impl Lists {
    /// Lists whose temporary files are in this directory.
    pub(super) fn in_directory(directory: &Path) -> Self {
        Self {
            counters: list_in(directory),
            overhead: list_in(directory),
            pages: None,
            profiling_log: object_in(directory),
            gathering_log: object_in(directory),
            others: spilled(directory),
            names_of_others: UniqueNames::default(),
            directory: directory.to_owned(),
        }
    }

    /// Whether a temporary file has failed. [`Self::finish`] returns the reason.
    pub(super) fn is_failed(&self) -> bool {
        let lists = [&self.counters, &self.overhead, &self.others];
        let logs = [&self.profiling_log, &self.gathering_log];
        let mut all = lists.into_iter().chain(logs).chain(&self.pages);
        all.any(|list| list.is_failed())
    }

    /// Adds a member of an input.
    pub(super) fn add<'de, D: Deserializer<'de>>(
        &mut self,
        key: &str,
        changes: ListChanges<'_>,
        from: D,
    ) -> Result<(), D::Error> {
        let items = |out, from| OptionalList(&mut ProcessItems { changes, out }).deserialize(from);
        let log = |out, from| Object(&mut LogsByProcess { changes, out }).deserialize(from);
        match key {
            "counters" => items(&mut self.counters, from),
            "profilerOverhead" => items(&mut self.overhead, from),
            "pages" => {
                let directory = &self.directory;
                let pages = self.pages.get_or_insert_with(|| list_in(directory));
                OptionalList(&mut CopiedItems(pages)).deserialize(from)
            }
            "profilingLog" => log(&mut self.profiling_log, from),
            "profileGatheringLog" => log(&mut self.gathering_log, from),
            _ => {
                self.others.key(&self.names_of_others.name(key));
                CopiedValue(&mut self.others).deserialize(from)
            }
        }
    }

    /// Writes all members but the threads, the shared tables and `meta`.
    ///
    /// # Errors
    /// A temporary file cannot be written or read.
    pub(super) fn finish<W: Write>(self, out: &mut JsonWriter<W>) -> Result<(), MergeError> {
        let directory = self.directory.clone();
        let written = self.write(out);
        written.map_err(|source| MergeError::Temporary { directory, source })
    }

    fn write<W: Write>(self, out: &mut JsonWriter<W>) -> io::Result<()> {
        let lists = [
            ("counters", Some(self.counters)),
            ("profilerOverhead", Some(self.overhead)),
            ("pages", self.pages),
        ];
        for (name, list) in lists {
            let Some(mut list) = list else { continue };
            list.end_array();
            write_spilled(list, name, out)?;
        }
        let logs = [
            ("profilingLog", self.profiling_log),
            ("profileGatheringLog", self.gathering_log),
        ];
        for (name, mut log) in logs {
            log.end_object();
            write_spilled(log, name, out)?;
        }
        write_spilled_members(self.others, out)
    }
}

/// Copies a value as it is.
struct CopiedValue<'o>(&'o mut Spilled);

impl<'de> DeserializeSeed<'de> for CopiedValue<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        let (out, change) = (self.0, &mut Ok);
        Rewrite { out, change }.deserialize(from)
    }
}

/// Copies items as they are.
struct CopiedItems<'o>(&'o mut Spilled);

impl Items for CopiedItems<'_> {
    const NAME: &'static str = "a list";

    fn item<'de, A: SeqAccess<'de>>(&mut self, items: &mut A) -> Result<bool, A::Error> {
        Ok(items.next_element_seed(CopiedValue(self.0))?.is_some())
    }
}

/// Writes items that belong to processes, counters or the overhead, or one of them.
struct ProcessItems<'o, 'a> {
    changes: ListChanges<'a>,
    out: &'o mut Spilled,
}

impl Items for ProcessItems<'_, '_> {
    const NAME: &'static str = "a list";

    fn item<'de, A: SeqAccess<'de>>(&mut self, items: &mut A) -> Result<bool, A::Error> {
        let item = ProcessItems {
            changes: self.changes,
            out: &mut *self.out,
        };
        Ok(items.next_element_seed(item)?.is_some())
    }
}

impl<'de> DeserializeSeed<'de> for ProcessItems<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(mut self, from: D) -> Result<(), D::Error> {
        self.out.begin_object();
        Object(&mut self).deserialize(from)?;
        self.out.end_object();
        Ok(())
    }
}

impl Members for ProcessItems<'_, '_> {
    const NAME: &'static str = "a counter";

    fn member<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let changes = self.changes;
        match key {
            "pid" => {
                let pid = plain(&map.next_value::<Value>()?);
                self.out.entry_str(key, &changes.names.process_id(&pid));
                Ok(())
            }
            "mainThreadIndex" => change(key, map, self.out, |thread| {
                Ok(thread.plus(changes.first_thread))
            }),
            "samples" => {
                self.out.key(key);
                self.out.begin_object();
                let (ns, out) = (changes.offset_ns, &mut *self.out);
                map.next_value_seed(Object(&mut TimedColumns { ns, out }))?;
                self.out.end_object();
                Ok(())
            }
            _ => copy(key, map, self.out),
        }
    }
}

/// Writes columns, one of which has times.
struct TimedColumns<'o> {
    ns: i64,
    out: &'o mut Spilled,
}

impl Members for TimedColumns<'_> {
    const NAME: &'static str = "samples";

    fn member<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let ns = self.ns;
        match key {
            "time" => change(key, map, self.out, |time| Ok(time.moved(ns))),
            "timeDeltas" => move_first(key, map, self.out, ns),
            _ => copy(key, map, self.out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::naming::HostNames;

    const KEPT_IN_A_FILE: usize = 300 * 1024;

    fn add(lists: &mut Lists, key: &str, value: &str) -> serde_json::Result<()> {
        let names = HostNames::default();
        let changes = ListChanges {
            names: &names,
            offset_ns: 0,
            first_thread: 0,
        };
        lists.add(key, changes, &mut serde_json::Deserializer::from_str(value))
    }

    /// The number of open files in a directory, also of those without a name.
    #[cfg(target_os = "linux")]
    fn open_files(directory: &Path) -> usize {
        let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let open = open.filter_map(|file| std::fs::read_link(file.path()).ok());
        open.filter(|file| file.starts_with(directory)).count()
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn members_that_are_not_known_share_one_file() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().canonicalize().unwrap();
        let mut lists = Lists::in_directory(&directory);
        let long = format!("\"{}\"", "x".repeat(KEPT_IN_A_FILE));
        for _ in 0..3 {
            add(&mut lists, "later", &long).unwrap();
            add(&mut lists, "other", "1").unwrap();
        }
        assert_eq!(open_files(&directory), 1);
        let mut out = JsonWriter::new(Vec::new());
        out.begin_object();
        lists.finish(&mut out).unwrap();
        out.end_object();
        let written: Value = serde_json::from_slice(&out.finish().unwrap()).unwrap();
        for name in ["later", "later (2)", "later (3)"] {
            assert_eq!(written[name].to_string(), long);
        }
        assert_eq!(written["other (3)"], 1);
    }

    #[test]
    fn a_list_whose_file_cannot_be_created_has_failed() {
        let items = vec![r#"{"a":"0123456789"}"#; KEPT_IN_A_FILE / 10];
        let list = format!("[{}]", items.join(","));
        for key in ["counters", "profilerOverhead", "pages", "later"] {
            let mut lists = Lists::in_directory(Path::new("/no/such/directory"));
            assert!(!lists.is_failed());
            // A copied list ends where its file fails.
            let _ = add(&mut lists, key, &list);
            assert!(lists.is_failed(), "{key}");
            let failed = lists.finish(&mut JsonWriter::new(Vec::new()));
            assert!(matches!(failed, Err(MergeError::Temporary { .. })), "{key}");
        }
    }
}
