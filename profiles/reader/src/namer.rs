//! Names the addresses of a profile without names, from the files of this machine, as
//! `profiler view` does.
//!
//! Addresses are collected first, then every file is read once. Libraries without names are
//! reported, with the reason.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde::Serialize;

use super::addresses::Lib;
use profiler_files::{WorkEvent, WorkListener};
use profiler_symbols::server_api::Library;
use profiler_symbols::{ModuleKey, Place, SourceFrame, SymbolOptions, Symbols, Wanted};

/// The name that is shown for a function whose file and line are known, but not its name.
pub(super) const UNNAMED: &str = "(unnamed)";

/// A library whose addresses have no names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Nameless {
    /// Its name.
    pub library: String,
    /// The reason, in words.
    pub why: String,
}

/// Path and build id.
type Key = (String, Vec<u8>);

/// Collects addresses, then looks up their names.
#[derive(Debug, Default)]
pub(super) struct Namer {
    /// The requested addresses, with the library's name.
    asked: BTreeMap<Key, (String, BTreeSet<u64>)>,
    found: HashMap<Key, HashMap<u64, Arc<Place>>>,
    nameless: Vec<Nameless>,
}

impl Namer {
    /// Requests the name of an address.
    pub(crate) fn ask(&mut self, lib: &Lib, address: u64) {
        let (_, addresses) = self
            .asked
            .entry(key(lib))
            .or_insert_with(|| (lib.name.clone(), BTreeSet::new()));
        addresses.insert(address);
    }

    /// Looks up all requested addresses.
    pub(super) fn look_up(&mut self, options: SymbolOptions, listener: &WorkListener) {
        let mut symbols = Symbols::new(options);
        let asked: Vec<_> = std::mem::take(&mut self.asked).into_iter().collect();
        let wanted = asked
            .iter()
            .map(|((path, build_id), (_, addresses))| Wanted {
                module: ModuleKey { path, build_id },
                addresses: addresses.iter().copied().collect(),
            });
        let places = symbols.resolve_all(&wanted.collect::<Vec<_>>(), &mut |progress| {
            // The last report names no module.
            if progress.modules_done < progress.modules {
                listener.send(WorkEvent::Naming {
                    library: progress.next,
                    libraries_done: progress.modules_done,
                    libraries: progress.modules,
                });
            }
        });
        let reports = symbols.reports();
        for ((key, (name, addresses)), places) in asked.into_iter().zip(places) {
            let nameless = |why: String| Nameless {
                library: name.clone(),
                why,
            };
            if key.0.is_empty() {
                self.nameless
                    .push(nameless("the profile does not contain its path".to_owned()));
                continue;
            }
            if !places.iter().any(|place| place.is_named()) {
                let report = reports.iter().find(|report| report.path == key.0);
                let problem =
                    report.and_then(|report| report.problems.first().map(ToString::to_string));
                self.nameless.push(nameless(
                    problem.unwrap_or_else(|| "it has no symbols".to_owned()),
                ));
            }
            self.found
                .insert(key, addresses.into_iter().zip(places).collect());
        }
    }

    /// The functions at an address with their files and lines, the innermost first; none if they
    /// are unknown.
    pub(crate) fn frames(&self, lib: &Lib, address: u64) -> &[SourceFrame] {
        let place = self
            .found
            .get(&key(lib))
            .and_then(|places| places.get(&address));
        place
            .filter(|place| place.is_named())
            .map_or(&[], |place| &place.frames)
    }

    /// The libraries whose addresses have no names.
    pub(super) fn into_nameless(self) -> Vec<Nameless> {
        self.nameless
    }
}

fn key(lib: &Lib) -> Key {
    let code_id = lib.code_id.as_deref().unwrap_or_default();
    (lib.path.clone(), Library::new("", "", "", code_id).build_id)
}
