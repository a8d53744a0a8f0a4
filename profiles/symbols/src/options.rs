//! The directories in which symbols are looked up, and the limits on the cost.

use std::path::PathBuf;

const MIB: u64 = 1 << 20;

/// Options of [`super::Symbols`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SymbolOptions {
    /// Directories of separate debug files, by build id (`.build-id/xx/yyyy.debug`) and by name.
    pub debug_roots: Vec<PathBuf>,
    /// Directories that a module's path is also looked up in, if the path itself has no file or a
    /// different one: roots of containers, copies of another machine's files. They are used only
    /// with a build id, which identifies the right file.
    pub roots: Vec<PathBuf>,
    /// Limit on the bytes read of one file, before and after decompression together. Debug
    /// information beyond it is not used; the symbol table, which is small, still is.
    pub file_limit: u64,
    /// Limit on the bytes read of all files of one capture, or one call, before and after
    /// decompression together. Files beyond it are not read, and their reports say so.
    pub sum_limit: u64,
    /// Approximate limit on the bytes of results kept for later captures.
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
    /// Adds a directory of separate debug files, searched before all other places.
    #[must_use]
    pub fn debug_root(mut self, root: impl Into<PathBuf>) -> Self {
        self.debug_roots.insert(0, root.into());
        self
    }

    /// Adds a directory of modules; see [`Self::roots`].
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
