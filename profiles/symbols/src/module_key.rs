//! What is looked up: addresses of a module, which its path and build id identify.

/// Identifies a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ModuleKey<'a> {
    /// The path in the process.
    pub path: &'a str,
    /// The build id in the process's memory; empty if there is none.
    pub build_id: &'a [u8],
}

/// The addresses of a module to look up.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    /// The module.
    pub module: ModuleKey<'a>,
    /// Addresses in it, in any order.
    pub addresses: Vec<u64>,
}
