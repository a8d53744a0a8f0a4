//! Fixed-size storage for the unwinder's rows of register rules.
//!
//! Used by `walk`. gimli builds a row on the stack before it moves it to the cache, in two nested
//! calls. With framehop's own rows of 192 rules that takes 13 KiB, which a small thread of the host
//! does not have. On both architectures code saves fewer than 24 registers. A table with more makes
//! a frame that cannot be unwound, and the stack is marked as cut.

use framehop::AllocationPolicy;
use gimli::{
    EvaluationStorage, Piece, Reader, ReaderOffset, Register, RegisterRule, UnwindContextStorage,
    UnwindTableRow, Value,
};

/// The maximum number of registers with a rule in one row: x86-64 has 17; a function on aarch64
/// saves at most 21.
const RULES: usize = 24;
/// The nesting depth of rows, by `DW_CFA_remember_state`.
const ROWS: usize = 4;
/// The stack size of expressions; those of procedure linkage tables need 4 values.
const VALUES: usize = 16;

/// The storage sizes for gimli and framehop: no heap allocation, and little of the stack.
pub(crate) struct SmallRows;

impl<R: ReaderOffset> UnwindContextStorage<R> for SmallRows {
    type Rules = [(Register, RegisterRule<R>); RULES];
    type Stack = [UnwindTableRow<R, Self>; ROWS];
}

impl<R: Reader> EvaluationStorage<R> for SmallRows {
    type Stack = [Value; VALUES];
    type ExpressionStack = [(R, R); 2];
    type Result = [Piece<R>; 1];
}

impl AllocationPolicy for SmallRows {
    type GimliUnwindContextStorage<R: ReaderOffset> = Self;
    type GimliEvaluationStorage<R: Reader> = Self;
}
