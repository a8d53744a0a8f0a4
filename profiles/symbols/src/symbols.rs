//! The look-up of names, with its cache: first what is known, then the files of each module.
//!
//! Used by captures, by readers of profiles and by the server of `profiler view`. Invariant: each
//! call reads a file once, on a thread with a large stack.

use std::collections::HashMap;
use std::sync::Arc;

use super::cache::{Cache, Identity};
use super::demangle;
use super::kept::KeptFiles;
use super::module::{self, Outcome};
use super::module_key::{ModuleKey, Wanted};
use super::options::SymbolOptions;
use super::place::Place;
use super::problem::Problem;
use super::reading::Reading;
use super::report::ModuleReport;
use super::stack::{SymbolStackError, on_symbol_stack};

/// The progress of a look-up, reported before each module and after the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymbolProgress<'a> {
    /// Finished modules.
    pub modules_done: usize,
    /// All modules.
    pub modules: usize,
    /// Finished addresses.
    pub addresses_done: usize,
    /// All addresses.
    pub addresses: usize,
    /// The path of the next module; empty after the last.
    pub next: &'a str,
}

/// Looks up names, and caches them.
#[derive(Debug, Default)]
pub struct Symbols {
    options: SymbolOptions,
    cache: Cache,
    kept: KeptFiles,
}

impl Symbols {
    /// Creates an empty cache.
    pub fn new(options: SymbolOptions) -> Self {
        Self {
            options,
            cache: Cache::default(),
            kept: KeptFiles::default(),
        }
    }

    /// Uses these open files of modules.
    pub(super) fn with_kept(self, kept: KeptFiles) -> Self {
        Self { kept, ..self }
    }

    /// Looks up addresses; the result is in the order of `addresses`.
    pub fn resolve(&mut self, module: ModuleKey<'_>, addresses: &[u64]) -> Vec<Arc<Place>> {
        let mut left = self.options.sum_limit;
        self.resolve_within(module, addresses, &mut left)
    }

    /// Limit on the bytes read of all files for one capture.
    pub const fn sum_limit(&self) -> u64 {
        self.options.sum_limit
    }

    /// Like [`Self::resolve`], but reads at most `left` bytes, and subtracts the bytes that were
    /// read.
    pub fn resolve_within(
        &mut self,
        module: ModuleKey<'_>,
        addresses: &[u64],
        left: &mut u64,
    ) -> Vec<Arc<Place>> {
        let identity = Identity::of(module.path, module.build_id);
        let found = self.look_up(module, &identity, addresses, left);
        let nothing = Arc::default();
        let places = addresses
            .iter()
            .map(|address| Arc::clone(found.get(address).unwrap_or(&nothing)));
        let places = places.collect();
        self.cache.shrink(self.options.cache_limit);
        places
    }

    /// Looks up the addresses of each of `wanted`. Each file is read once, even if several
    /// processes need it.
    pub fn resolve_all(
        &mut self,
        wanted: &[Wanted<'_>],
        progress: &mut dyn FnMut(SymbolProgress<'_>),
    ) -> Vec<Vec<Arc<Place>>> {
        let mut groups: Vec<(Identity, Vec<usize>)> = Vec::new();
        let mut known: HashMap<Identity, usize> = HashMap::new();
        for (at, one) in wanted.iter().enumerate() {
            let identity = Identity::of(one.module.path, one.module.build_id);
            let group = *known.entry(identity.clone()).or_insert(groups.len());
            match groups.get_mut(group) {
                Some((_, members)) => members.push(at),
                None => groups.push((identity, vec![at])),
            }
        }
        let addresses = wanted.iter().map(|one| one.addresses.len()).sum();
        let start = SymbolProgress {
            modules_done: 0,
            modules: groups.len(),
            addresses_done: 0,
            addresses,
            next: "",
        };
        let mut left = self.options.sum_limit;
        let mut done = start;
        let mut results = vec![Vec::new(); wanted.len()];
        for (identity, members) in &groups {
            let members: Vec<(usize, &Wanted<'_>)> = members
                .iter()
                .filter_map(|at| Some((*at, wanted.get(*at)?)))
                .collect();
            let Some((_, first)) = members.first() else {
                continue;
            };
            progress(SymbolProgress {
                next: first.module.path,
                ..done
            });
            let all: Vec<u64> = members
                .iter()
                .flat_map(|(_, one)| one.addresses.iter().copied())
                .collect();
            let found = self.look_up(first.module, identity, &all, &mut left);
            let nothing = Arc::default();
            for (at, one) in &members {
                let place = |address| Arc::clone(found.get(address).unwrap_or(&nothing));
                if let Some(result) = results.get_mut(*at) {
                    *result = one.addresses.iter().map(place).collect();
                }
            }
            self.cache.shrink(self.options.cache_limit);
            done = SymbolProgress {
                modules_done: done.modules_done + 1,
                addresses_done: done.addresses_done + all.len(),
                ..done
            };
        }
        progress(done);
        results
    }

    /// The reports of all modules that were looked up, sorted by path.
    pub fn reports(&self) -> Vec<ModuleReport> {
        let mut reports: Vec<_> = self.cache.reports().cloned().collect();
        reports.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        reports
    }

    /// Approximate size of the cached results in bytes.
    pub fn cached_bytes(&self) -> u64 {
        self.cache.bytes()
    }

    /// Adds the missing results for `addresses` to those of a module, as far as possible.
    fn look_up(
        &mut self,
        key: ModuleKey<'_>,
        identity: &Identity,
        addresses: &[u64],
        left: &mut u64,
    ) -> &HashMap<u64, Arc<Place>> {
        let module = self.cache.module(identity);
        let mut missing: Vec<u64> = addresses
            .iter()
            .copied()
            .filter(|address| !module.places.contains_key(address))
            .collect();
        missing.sort_unstable();
        missing.dedup();
        if !missing.is_empty() {
            let found = look_into(key, &missing, (&self.options, &self.kept), left);
            module.add(&missing, &found.places, found.bytes);
            let unread = missing.len() - found.places.len();
            module.report = ModuleReport {
                path: key.path.to_owned(),
                source: found.source,
                debug_file: found.debug_file,
                addresses: (module.places.len() + unread) as u64,
                named: module
                    .places
                    .values()
                    .filter(|place| place.is_named())
                    .count() as u64,
                problems: found.problems,
            };
        }
        &module.places
    }
}

/// Reads the files of a module, on a stack that is large enough for any content.
fn look_into(
    key: ModuleKey<'_>,
    missing: &[u64],
    (options, kept): (&SymbolOptions, &KeptFiles),
    left: &mut u64,
) -> Outcome {
    let looked = on_symbol_stack(|| {
        let reading = Reading::new(options, *left).with_kept(kept.clone());
        let found = module::look_up(key.path, key.build_id, missing, &reading);
        (found, reading.budget.left())
    });
    match looked {
        Ok((found, rest)) => {
            *left = rest;
            found
        }
        Err(SymbolStackError::NoThread(error)) => {
            Outcome::nothing(vec![Problem::NoThread(error.kind())])
        }
        Err(SymbolStackError::Panicked(_)) => {
            Outcome::nothing(vec![Problem::Panicked(key.path.into())])
        }
    }
}

/// Looks up sorted addresses in an image in memory. Public for the fuzzer, which checks that no
/// image causes a panic.
#[doc(hidden)]
pub fn resolve_image(image: Vec<u8>, addresses: &[u64]) -> Vec<Arc<Place>> {
    let mut addresses = addresses.to_vec();
    addresses.sort_unstable();
    addresses.dedup();
    let options = SymbolOptions::default().file_limit(64 << 20);
    match on_symbol_stack(|| module::in_image(image, &addresses, &options)) {
        Ok(found) => found.places,
        Err(SymbolStackError::NoThread(_)) => Vec::new(),
        Err(SymbolStackError::Panicked(panic)) => std::panic::resume_unwind(panic),
    }
}

/// Demangles a function's name. Public for the fuzzer, which checks that no name causes a panic or
/// overflows the stack.
#[doc(hidden)]
pub fn readable_name(raw: &[u8]) -> String {
    match on_symbol_stack(|| demangle::readable(raw)) {
        Ok(name) => name,
        Err(SymbolStackError::NoThread(_)) => String::new(),
        Err(SymbolStackError::Panicked(panic)) => std::panic::resume_unwind(panic),
    }
}
