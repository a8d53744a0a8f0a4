//! The result of looking up a module's addresses, for users.

use std::fmt;
use std::path::PathBuf;

use super::problem::Problem;

/// The source of names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameSource {
    /// None: addresses have no names.
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

/// The result for the addresses of one module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModuleReport {
    /// The path of the module's file in the process.
    pub path: String,
    /// The source of the names.
    pub source: NameSource,
    /// The separate file with the debug information, if there is one.
    pub debug_file: Option<PathBuf>,
    /// Distinct addresses that were looked up, not counting evicted ones.
    pub addresses: u64,
    /// Number of these addresses with a name.
    pub named: u64,
    /// The reasons for missing names.
    pub problems: Vec<Problem>,
}

impl fmt::Display for ModuleReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            source,
            addresses,
            named,
            problems,
            ..
        } = self;
        write!(
            f,
            "{path}: {named} of {addresses} addresses named ({source})"
        )?;
        problems
            .iter()
            .try_for_each(|problem| write!(f, "; {problem}"))
    }
}
