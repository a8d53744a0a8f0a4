//! Names for code addresses: what the writer asks, whoever answers.
//!
//! The writer collects all addresses of all processes first and asks once per module, so an
//! implementation can read a file once, in order, and forget it.

use profiler_core::internal::reader::ModuleDefinition;

/// One function at an address; several if the compiler has inlined them into each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InlineFrame<'a> {
    /// Demangled name.
    pub function: &'a str,
    /// Source file, if known.
    pub file: Option<&'a str>,
    /// Line in it, if known.
    pub line: Option<u32>,
}

/// What is known of the code at one address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodeNames<'a> {
    /// The function that runs there and those that it is inlined into, innermost first. Empty: unknown.
    pub frames: &'a [InlineFrame<'a>],
    /// Where the outermost of them begins, relative to its module.
    pub start: Option<u64>,
    /// How many bytes of code it has.
    pub size: Option<u32>,
}

/// Gives names to code.
pub trait Symbols {
    /// Tells `found` the names at those of the `addresses` that it knows: the address, and what is there.
    /// Addresses are relative to the module's base, of instructions and not of where they return to,
    /// ascending, each once.
    fn resolve(
        &mut self,
        module: &ModuleDefinition,
        addresses: &[u64],
        found: &mut dyn FnMut(u64, &CodeNames<'_>),
    );

    /// What was not told because it would have been too much, in words. Asked once, after all modules.
    fn left_out(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// Knows no names: frames show their module and address, and can be named later.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSymbols;

impl Symbols for NoSymbols {
    fn resolve(&mut self, _: &ModuleDefinition, _: &[u64], _: &mut dyn FnMut(u64, &CodeNames<'_>)) {}
}
