//! Results of earlier look-ups, for later captures.
//!
//! Owned by [`super::Symbols`]. Invariants: results are keyed by build id, so one file under two
//! names has one entry; without a build id, a changed file gets a new entry; the size of all
//! results is at most about the limit, and the least recently used modules are evicted first.

use std::collections::HashMap;
use std::sync::Arc;

use super::locate;
use super::place::Place;
use super::report::ModuleReport;
use profiler_sys::FileStamp;

/// Approximate bytes per address, not counting its place.
const BYTES_PER_ADDRESS: u64 = 32;

/// Limit on the remembered modules and their reports.
const MAX_MODULES: usize = 1 << 14;

/// The identity of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Identity {
    /// The build id from the linker.
    BuildId(Vec<u8>),
    /// The stamp of a file without a build id.
    File(FileStamp),
    /// The path, if it does not name a readable file.
    Path(String),
}

impl Identity {
    pub(super) fn of(path: &str, build_id: &[u8]) -> Self {
        if !build_id.is_empty() {
            return Self::BuildId(build_id.to_owned());
        }
        match std::fs::metadata(locate::on_disk(path)) {
            Ok(file) => Self::File(FileStamp::of(&file)),
            Err(_) => Self::Path(path.to_owned()),
        }
    }
}

/// The results of one module.
#[derive(Debug, Default)]
pub(super) struct Module {
    pub(super) places: HashMap<u64, Arc<Place>>,
    pub(super) report: ModuleReport,
    /// Approximate size of the places in bytes.
    pub(super) bytes: u64,
    used: u64,
}

impl Module {
    /// Adds results.
    pub(super) fn add(&mut self, addresses: &[u64], places: &[Arc<Place>], bytes: u64) {
        self.places
            .extend(addresses.iter().copied().zip(places.iter().cloned()));
        self.bytes += bytes + BYTES_PER_ADDRESS * places.len() as u64;
    }
}

/// All cached results.
#[derive(Debug, Default)]
pub(super) struct Cache {
    modules: HashMap<Identity, Module>,
    turn: u64,
}

impl Cache {
    /// Returns the results of a module, and marks it as the most recently used.
    pub(super) fn module(&mut self, identity: &Identity) -> &mut Module {
        self.turn += 1;
        let module = self.modules.entry(identity.clone()).or_default();
        module.used = self.turn;
        module
    }

    pub(super) fn bytes(&self) -> u64 {
        self.modules.values().map(|module| module.bytes).sum()
    }

    pub(super) fn reports(&self) -> impl Iterator<Item = &ModuleReport> {
        self.modules.values().map(|module| &module.report)
    }

    /// Evicts results until at most `limit` bytes are kept. Reports are kept, up to
    /// [`MAX_MODULES`].
    pub(super) fn shrink(&mut self, limit: u64) {
        if self.modules.len() > MAX_MODULES {
            let mut turns: Vec<u64> = self.modules.values().map(|module| module.used).collect();
            turns.sort_unstable();
            let oldest = turns.get(turns.len() / 2).copied().unwrap_or(0);
            self.modules.retain(|_, module| module.used > oldest);
        }
        let mut bytes = self.bytes();
        let mut oldest: Vec<_> = self
            .modules
            .values_mut()
            .filter(|module| module.bytes > 0)
            .collect();
        oldest.sort_unstable_by_key(|module| module.used);
        for module in oldest {
            if bytes <= limit {
                return;
            }
            bytes -= module.bytes;
            module.places = HashMap::new();
            module.bytes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_module_is_evicted_first() {
        let ids: Vec<_> = (0..3_u8).map(|id| Identity::BuildId(vec![id])).collect();
        let mut cache = Cache::default();
        for id in &ids {
            cache.module(id).add(&[1], &[Arc::default()], 968);
        }
        cache.module(&ids[0]);
        assert_eq!(cache.bytes(), 3000);
        cache.shrink(2000);
        assert_eq!(cache.bytes(), 2000);
        assert!(
            cache.module(&ids[1]).places.is_empty(),
            "the second was used least recently"
        );
        assert!(
            !cache.module(&ids[0]).places.is_empty() && !cache.module(&ids[2]).places.is_empty()
        );
        cache.shrink(0);
        assert_eq!(cache.bytes(), 0);
    }

    #[test]
    fn two_names_of_a_file_have_one_identity_and_a_changed_file_another() {
        assert_eq!(Identity::of("/a", &[1]), Identity::of("/b", &[1]));
        assert_ne!(Identity::of("/a", &[1]), Identity::of("/a", &[2]));
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        let before = Identity::of(path, &[]);
        let (folder, name) = path.rsplit_once('/').unwrap();
        for same in [format!("{folder}/./{name}"), format!("{path} (deleted)")] {
            assert_eq!(before, Identity::of(&same, &[]), "{same}");
        }
        assert_eq!(before, Identity::of(path, &[]));
        std::fs::write(path, "more").unwrap();
        assert_ne!(before, Identity::of(path, &[]));
    }

    #[test]
    fn the_number_of_modules_is_limited_and_the_oldest_are_evicted() {
        let mut cache = Cache::default();
        for number in 0..MAX_MODULES as u64 * 3 {
            cache.module(&Identity::BuildId(number.to_ne_bytes().to_vec()));
            cache.shrink(u64::MAX);
        }
        assert!(cache.modules.len() <= MAX_MODULES);
        let last = MAX_MODULES as u64 * 3 - 1;
        assert!(
            cache
                .modules
                .contains_key(&Identity::BuildId(last.to_ne_bytes().to_vec()))
        );
    }
}
