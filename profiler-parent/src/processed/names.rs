//! The interface through which the writer of a profile gets names for code addresses.
//!
//! The writer collects all addresses of all processes first and asks once per module, so an
//! implementation can read a file once, in order, and forget it.

use profiler_core::internal::reader::ModuleDefinition;

/// A function at an address. An address has several functions if the compiler inlined them into
/// each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InlineFrame<'a> {
    /// Demangled name.
    pub function: &'a str,
    /// Source file, if known.
    pub file: Option<&'a str>,
    /// Line in it, if known.
    pub line: Option<u32>,
}

/// The known names of the code at one address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodeNames<'a> {
    /// The function at the address and the functions that it is inlined into, innermost first.
    /// Empty if unknown.
    pub frames: &'a [InlineFrame<'a>],
    /// Start of the outermost function, relative to its module.
    pub start: Option<u64>,
    /// Size of the outermost function in bytes.
    pub size: Option<u32>,
}

/// A source of names for code addresses.
pub trait Symbols {
    /// Takes the number of modules that [`Self::resolve`] will be called for. Called once, before
    /// the first module.
    fn begin(&mut self, _modules: usize) {}

    /// Calls `found` with each of the `addresses` that has names, and with these names. The
    /// addresses are relative to the module's base, ascending and distinct; they are addresses of
    /// instructions, not return addresses.
    fn resolve(
        &mut self,
        module: &ModuleDefinition,
        addresses: &[u64],
        found: &mut dyn FnMut(u64, &CodeNames<'_>),
    );

    /// Whether code that processes generate at run time gets the names that their runtimes wrote.
    fn names_generated_code(&self) -> bool {
        true
    }

    /// Describes the names that were left out because of a limit. Called once, after all modules.
    fn left_out(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// A source without names: frames show their module and address, and can be named later.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSymbols;

impl Symbols for NoSymbols {
    fn resolve(&mut self, _: &ModuleDefinition, _: &[u64], _: &mut dyn FnMut(u64, &CodeNames<'_>)) {
    }

    fn names_generated_code(&self) -> bool {
        false
    }
}
