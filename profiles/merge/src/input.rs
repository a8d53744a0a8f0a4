//! One input: its file, and the data of the first pass.
//!
//! Used by [`super::merge_with`]. Invariants: a file is open only while it is read, so the number
//! of inputs does not depend on the number of descriptors; both passes read the same contents, or
//! the merge fails.

use std::fs::File;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny};
use serde_json::{Map, Value};

use super::align::Anchor;
use super::hosts::HostRecord;
use super::naming::{check_name, host_name};
use super::shared_rows::RawShared;
use super::{MergeError, MergeInput};
use profiler_json::PROCESSED_VERSION;
use profiler_reader::text::Pass;
use profiler_reader::{Object, PartId, ReadError, Visit, walk_file};
use profiler_sys::FileStamp;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Input {
    pub(super) path: PathBuf,
    stamp: FileStamp,
    /// The length of its text in bytes.
    pub(super) length: u64,
    /// `meta` without its hosts.
    pub(super) meta: Map<String, Value>,
    pub(super) hosts: Vec<HostRecord>,
    pub(super) anchor: Anchor,
    pub(super) threads: u64,
}

/// The tables of an input, before they are merged.
#[derive(Debug, Default)]
pub(super) struct InputTables {
    pub(super) shared: RawShared,
    pub(super) libs: Vec<Value>,
}

/// The first pass.
#[derive(Debug, Default)]
struct FirstPass {
    meta: Option<Map<String, Value>>,
    tables: InputTables,
    threads: u64,
}

impl Input {
    /// Reads an input once.
    pub(super) fn open(input: &MergeInput, pass: Pass) -> Result<(Self, InputTables), MergeError> {
        let path = input.path.clone();
        let (file, stamp) = open(&path)?;
        let mut first = FirstPass::default();
        let length = walk_file(&path, &file, pass, &mut first)?;
        let mut meta = first.meta.ok_or_else(|| unlike(&path, "it has no meta"))?;
        check_version(&path, &meta)?;
        let hosts = HostRecord::take(&mut meta, &file_stem(&path));
        let hosts = hosts.map_err(|why| unlike(&path, &why))?;
        let hosts = renamed(input, hosts)?;
        let checked = hosts.iter().try_for_each(HostRecord::check);
        checked.map_err(|why| unlike(&path, why))?;
        let anchor = Anchor {
            unix_ns: start(&meta).ok_or_else(|| unlike(&path, "it does not say when it began"))?,
            clocks: hosts.iter().filter_map(HostRecord::clock).collect(),
            shift_ns: 0,
        };
        let threads = first.threads;
        let input = Self {
            path,
            stamp,
            length,
            meta,
            hosts,
            anchor,
            threads,
        };
        Ok((input, first.tables))
    }

    /// Opens the file again.
    ///
    /// # Errors
    /// It cannot be opened, or is another one than in the first pass.
    pub(super) fn open_again(&self) -> Result<File, MergeError> {
        let (file, stamp) = open(&self.path)?;
        if stamp != self.stamp {
            return Err(MergeError::InputChanged {
                path: self.path.clone(),
            });
        }
        Ok(file)
    }

    /// The range of its times, in nanoseconds since its start.
    pub(super) fn range(&self) -> Option<(i64, i64)> {
        let ns = |key: &str| Some((self.meta.get(key)?.as_f64()? * 1e6).round() as i64);
        Some((ns("profilingStartTime")?, ns("profilingEndTime")?))
    }
}

fn open(path: &Path) -> Result<(File, FileStamp), ReadError> {
    let opened = File::open(path).and_then(|file| {
        let stamp = FileStamp::of(&file.metadata()?);
        Ok((file, stamp))
    });
    opened.map_err(|source| ReadError::Read {
        path: path.to_owned(),
        source,
    })
}

pub(super) fn unlike(path: &Path, why: &str) -> ReadError {
    ReadError::NotAProfile {
        path: path.to_owned(),
        why: why.to_owned(),
    }
}

/// Gives the host of an input the name that the caller wants.
fn renamed(input: &MergeInput, mut hosts: Vec<HostRecord>) -> Result<Vec<HostRecord>, MergeError> {
    let Some(name) = &input.name else {
        return Ok(hosts);
    };
    check_name(name).map_err(|why| MergeError::InvalidHostName {
        name: name.clone(),
        why: why.to_owned(),
    })?;
    match hosts.as_mut_slice() {
        [host] => {
            host.name.clone_from(name);
            host.id.clone_from(name);
            Ok(hosts)
        }
        _ => Err(MergeError::NameOfSeveralHosts {
            path: input.path.clone(),
            name: name.clone(),
            hosts: hosts.into_iter().map(|host| host.id).collect(),
        }),
    }
}

fn check_version(path: &Path, meta: &Map<String, Value>) -> Result<(), MergeError> {
    let path = || path.to_owned();
    match meta.get("preprocessedProfileVersion") {
        None => Err(MergeError::GeckoFormat { path: path() }),
        Some(version) if *version == PROCESSED_VERSION => Ok(()),
        Some(version) => Err(MergeError::Version {
            path: path(),
            version: version.to_string(),
        }),
    }
}

/// The start of a profile, in nanoseconds since 1970.
fn start(meta: &Map<String, Value>) -> Option<i64> {
    let exact = meta.get("startUnixNs").and_then(Value::as_i64);
    let rounded = || {
        let ns = meta.get("startTime")?.as_f64()? * 1e6;
        (ns.abs() < i64::MAX as f64).then_some(ns.round() as i64)
    };
    exact.or_else(rounded)
}

/// The name of a profile's file without its ending, as the name of a host.
fn file_stem(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.strip_suffix(".gz").unwrap_or(&name);
    let stem = stem.strip_suffix(".json").unwrap_or(stem);
    match stem {
        "" => "profile".to_owned(),
        stem => host_name(stem),
    }
}

impl Visit for FirstPass {
    fn value<'de, D: Deserializer<'de>>(
        &mut self,
        at: PartId,
        key: &str,
        from: D,
    ) -> Result<(), D::Error> {
        match key {
            _ if at != PartId(0) => drop(IgnoredAny::deserialize(from)?),
            "meta" => self.meta = Some(Map::deserialize(from)?),
            "libs" => {
                self.tables.libs = Option::deserialize(from)?.unwrap_or_default();
            }
            "shared" => {
                use serde::de::DeserializeSeed as _;
                Object(&mut self.tables.shared).deserialize(from)?;
            }
            _ => drop(IgnoredAny::deserialize(from)?),
        }
        Ok(())
    }

    fn thread<'de, D: Deserializer<'de>>(&mut self, at: PartId, from: D) -> Result<(), D::Error> {
        if at == PartId(0) {
            self.threads = self
                .threads
                .checked_add(1)
                .ok_or_else(|| D::Error::custom("too many threads"))?;
        }
        IgnoredAny::deserialize(from).map(drop)
    }
}
