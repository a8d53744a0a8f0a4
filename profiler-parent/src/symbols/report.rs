//! How the look-up of a module's addresses went, for people.

use std::fmt;
use std::path::PathBuf;

use super::problem::Problem;

/// Where names came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameSource {
    /// From nowhere: addresses stay addresses.
    #[default]
    Nothing,
    /// The symbol table: functions, but no files, lines and inlined functions.
    SymbolTable,
    /// Debug information.
    DebugInformation,
}

impl fmt::Display for NameSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "nothing",
            Self::SymbolTable => "symbol table",
            Self::DebugInformation => "debug information",
        })
    }
}

/// What became of one module's addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModuleReport {
    /// The module's file, as the process saw it.
    pub path: String,
    /// Where the names came from.
    pub source: NameSource,
    /// The separate file with the debug information, if there is one.
    pub debug_file: Option<PathBuf>,
    /// Distinct addresses that were asked for and are not forgotten.
    pub addresses: u64,
    /// Those of them that have a name.
    pub named: u64,
    /// What stood in the way of more.
    pub problems: Vec<Problem>,
}

impl fmt::Display for ModuleReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, source, addresses, named, problems, .. } = self;
        write!(f, "{path}: {named} of {addresses} addresses named ({source})")?;
        problems.iter().try_for_each(|problem| write!(f, "; {problem}"))
    }
}
