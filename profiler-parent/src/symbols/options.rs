//! Where symbols are looked for, and how much they may cost.

use std::path::PathBuf;

const MIB: u64 = 1 << 20;

/// Settings of [`super::Symbols`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SymbolOptions {
    /// Directories of separate debug files, by build id (`.build-id/xx/yyyy.debug`) and by name.
    pub debug_roots: Vec<PathBuf>,
    /// Directories that a module's path is also tried in, if its own place has no such file or another one: roots
    /// of containers, copies of another machine's files. Only with a build id, which tells the right file from a wrong one.
    pub roots: Vec<PathBuf>,
    /// Largest sum of bytes that is read of one file, before and after decompression together. More
    /// debug information than this is not used; the symbol table, which is small, then still is.
    pub file_limit: u64,
    /// Largest sum of bytes that is read of all files of one capture, or one call, before and after decompression
    /// together. Files that come when it is used up are not read, which their reports say.
    pub sum_limit: u64,
    /// About how many bytes of results are kept for later captures.
    pub cache_limit: u64,
}

impl Default for SymbolOptions {
    fn default() -> Self {
        Self {
            debug_roots: vec![PathBuf::from("/usr/lib/debug")],
            roots: Vec::new(),
            file_limit: 1024 * MIB,
            sum_limit: 4096 * MIB,
            cache_limit: 64 * MIB,
        }
    }
}

impl SymbolOptions {
    /// Also looks for separate debug files here, before all other places.
    #[must_use]
    pub fn debug_root(mut self, root: impl Into<PathBuf>) -> Self {
        self.debug_roots.insert(0, root.into());
        self
    }

    /// Also looks for modules here; see [`Self::roots`].
    #[must_use]
    pub fn root(mut self, root: impl Into<PathBuf>) -> Self {
        self.roots.push(root.into());
        self
    }

    /// Sets [`Self::cache_limit`].
    #[must_use]
    pub fn cache_limit(mut self, bytes: u64) -> Self {
        self.cache_limit = bytes;
        self
    }

    /// Sets [`Self::sum_limit`].
    #[must_use]
    pub fn sum_limit(mut self, bytes: u64) -> Self {
        self.sum_limit = bytes;
        self
    }

    /// Sets [`Self::file_limit`].
    #[must_use]
    pub fn file_limit(mut self, bytes: u64) -> Self {
        self.file_limit = bytes;
        self
    }
}
