//! Labels: frames on a thread's stack that the program names itself.
//!
//! Called by applications. [`crate::label!`] opens a label for the rest of a block,
//! [`function`](macro@function) for a whole function. Samples and the stacks of markers show the
//! open labels, each just inside the native frame that opened it; where stacks cannot be walked,
//! they show the labels alone.
//!
//! While no session runs, a label costs one relaxed load to open and a comparison to close. While
//! one runs, it costs about 2 ns: a load of the label's number, three stores, and one store to
//! close. Labels are not recorded; the code that takes a stack reads them (`stack`). The first
//! label of a thread creates its list of labels, and the first use of a label in a session creates
//! its definition. Both allocate; neither waits. A label that the program's allocator opens
//! meanwhile is not shown.
//!
//! A label that is open when a session starts does not appear in it, because labels are not stored
//! while none runs. A label that is open when a session stops is still closed correctly. A thread
//! shows its 64 outermost labels; deeper ones are counted, not shown.
//!
//! ```
//! use profiler_core::label;
//! use profiler_core::marker::category;
//!
//! #[label::function]
//! fn parse(text: &str) -> usize {
//!     let lines = {
//!         let _label = label!("count lines");
//!         text.lines().count()
//!     };
//!     let _label = label!("count bytes", &category::IO);
//!     lines + text.len()
//! }
//! assert_eq!(parse("a\nb"), 5);
//! ```

pub(crate) mod merge;
pub(crate) mod registry;
mod stack;

/// Opens a label for the whole of a function: its module's path and its name.
///
/// `#[label::function]`, or `#[label::function(category)]`, as in [`crate::label!`].
/// `profiler_child` and `profiler_parent` have the same attribute in their module `label`. For a
/// crate that has the profiler under another name, that name comes first:
/// `#[label::function(crate = our_profiler::core, &category::IO)]`.
///
/// Not for an `async fn`, which may continue on another thread, nor for a `const fn`:
///
/// ```compile_fail
/// #[profiler_core::label::function]
/// async fn fetch() {}
/// ```
pub use profiler_core_macros::function;
#[doc(hidden)]
pub use profiler_core_macros::{function_of_child, function_of_parent};

pub(crate) use stack::{LabelStack, MAX_LABELS, OpenLabels};

use std::marker::PhantomData;

use crate::category::{Category, CategoryPair};
use crate::definition_cell::{DefinitionCell, DefinitionTable};
use crate::entry_counts::DropReason;
use crate::ids::DefinitionId;
use crate::manager::ChunkManager;
use crate::pool::definitions::{Definition, LabelDefinition};
use crate::pool::tag::pool_tag;
use crate::record::{local, session_state};

/// The static behind a [`crate::label!`]. Not for direct use.
#[doc(hidden)]
#[derive(Debug)]
pub struct Label {
    name: &'static str,
    file: &'static str,
    line: u32,
    cell: DefinitionCell,
}

impl Label {
    /// A label with this name, opened at this source location.
    pub const fn new(name: &'static str, file: &'static str, line: u32) -> Self {
        Self {
            name,
            file,
            line,
            cell: DefinitionCell::new(),
        }
    }

    /// Its name.
    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    /// Defines the label in the pool. `None` if that is not possible now; then this scope is not
    /// shown.
    #[cold]
    #[inline(never)]
    fn define(&self, category: CategoryPair) -> Option<(u64, DefinitionId)> {
        local::with_manager(|manager| {
            let definition = || self.definition(manager, category);
            Some((
                manager.tag(),
                self.cell.get_or_define(manager, definition).ok()?,
            ))
        })
    }

    /// As [`Self::define`], for labels that are not static: those of one name and place have one
    /// definition.
    #[cold]
    #[inline(never)]
    fn define_shared(&self, category: CategoryPair) -> Option<(u64, DefinitionId)> {
        local::with_manager(|manager| {
            let content = (self.name, self.file, self.line);
            let definition = || self.definition(manager, category);
            let number = SHARED.get_or_define(manager, &content, definition).ok()?;
            self.cell.set(manager.tag(), number);
            Some((manager.tag(), number))
        })
    }

    fn definition(
        &self,
        manager: &ChunkManager,
        category: CategoryPair,
    ) -> Result<Definition, DropReason> {
        Ok(Definition::Label(LabelDefinition {
            name: self.name.to_owned(),
            category: category.define(manager)?,
            subcategory: category.subcategory(),
            file: self.file.to_owned(),
            line: self.line,
        }))
    }
}

/// The definitions of labels that are not static.
static SHARED: DefinitionTable = DefinitionTable::new();

/// Closes a label when it is dropped. Made by [`crate::label!`]. Not `Send`.
#[derive(Debug)]
#[must_use = "a label ends when its guard is dropped; bind it: let _label = label!(…)"]
pub struct LabelScope {
    /// The number of labels that were open before it.
    outside: u32,
    /// Not `Send`: the label belongs to its thread.
    thread: PhantomData<*const ()>,
}

/// Marks a label that is not stored.
const NONE: u32 = u32::MAX;

impl LabelScope {
    /// Opens a label if a session runs.
    #[inline(always)]
    pub fn new(label: &'static Label, category: impl Into<CategoryPair>) -> Self {
        if !session_state::is_active() {
            return Self::disabled();
        }
        // In the frame of the function that opens the label, because this is always inlined.
        let place = 0_u8;
        let address = std::ptr::from_ref(&place).addr() as u64;
        let tag = pool_tag();
        let outside = match label.cell.get(tag) {
            Some(number) => registry::push(tag, number, address),
            None => Self::first(label, category.into(), address),
        };
        Self {
            outside,
            thread: PhantomData,
        }
    }

    #[cold]
    #[inline(never)]
    fn first(label: &'static Label, category: CategoryPair, address: u64) -> u32 {
        Self::define_and_push(|| label.define(category), address)
    }

    /// The definition allocates, and the program's allocator may open the same label.
    fn define_and_push(define: impl FnOnce() -> Option<(u64, DefinitionId)>, address: u64) -> u32 {
        registry::unless_making(define)
            .flatten()
            .map_or(NONE, |(tag, number)| registry::push(tag, number, address))
    }

    /// Opens a label that is not static. The caller has checked that a session runs. `address` is
    /// in the stack frame of the function that the label belongs to.
    #[inline]
    pub(crate) fn open_shared(
        label: &Label,
        category: impl Into<CategoryPair>,
        address: u64,
    ) -> Self {
        let tag = pool_tag();
        let outside = match label.cell.get(tag) {
            Some(number) => registry::push(tag, number, address),
            None => {
                let category = category.into();
                Self::define_and_push(|| label.define_shared(category), address)
            }
        };
        Self {
            outside,
            thread: PhantomData,
        }
    }

    /// Whether the label is stored.
    pub(crate) const fn is_open(&self) -> bool {
        self.outside != NONE
    }

    /// Opens a label if a session runs, for code in other languages, which has no guard. `address`
    /// is in the stack frame of the function that the label belongs to. Returns a number for
    /// [`Self::close`]. Costs as much as [`Self::new`].
    #[doc(hidden)]
    #[inline]
    pub fn open_at(label: &'static Label, category: &'static Category, address: u64) -> u32 {
        if !session_state::is_active() {
            return NONE;
        }
        let tag = pool_tag();
        match label.cell.get(tag) {
            Some(number) => registry::push(tag, number, address),
            None => Self::first(label, category.into(), address),
        }
    }

    /// Closes the label for which [`Self::open_at`] has returned this number on this thread, and
    /// all labels inside it. Any number is harmless.
    #[doc(hidden)]
    #[inline]
    pub fn close(outside: u32) {
        if outside != NONE {
            registry::leave(outside);
        }
    }

    /// A label that is not shown.
    pub const fn disabled() -> Self {
        Self {
            outside: NONE,
            thread: PhantomData,
        }
    }
}

impl Drop for LabelScope {
    #[inline(always)]
    fn drop(&mut self) {
        if self.outside != NONE {
            registry::leave(self.outside);
        }
    }
}
