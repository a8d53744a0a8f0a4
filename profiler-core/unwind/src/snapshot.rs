//! The files with code of a process at one moment.
//!
//! Made by the sampler, for its own process or an observed one; used by `walk`. Immutable: a newer
//! snapshot replaces an older one.

use framehop::{ExplicitModuleSectionInfo, Module, Unwinder, UnwinderNative};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::calls::FunctionMap;
use crate::elf::{CodeRange, Image};
use crate::frame::ModuleNumber;
use crate::function_starts::FunctionStarts;
use crate::storage::SmallRows;

type Tables = UnwinderNative<Arc<[u8]>, SmallRows>;

/// A file with code, and where it is loaded.
#[derive(Clone, Debug)]
pub struct PlacedModule {
    /// The lowest address of the file.
    pub start: u64,
    /// The end of its highest address.
    pub end: u64,
    /// The address at which the file's address 0 is loaded; may wrap around (two's complement).
    pub bias: u64,
    /// The number that its frames have. `None` if it has no number: its frames then have
    /// addresses of the process.
    pub number: Option<ModuleNumber>,
    /// Its code, by the file's own addresses.
    pub code: Arc<[CodeRange]>,
    /// The starts of its functions. `None` if the file does not list them.
    pub functions: Option<FunctionStarts>,
}

impl PlacedModule {
    /// Whether a function with unwinding tables contains an address.
    pub(crate) fn is_covered(&self, address: u64) -> bool {
        let starts = self.functions.as_ref();
        starts.is_some_and(|starts| starts.containing(address.wrapping_sub(self.bias)).is_some())
    }

    /// Whether the code of the file contains an address.
    pub(crate) fn is_executable(&self, address: u64) -> bool {
        let address = address.wrapping_sub(self.bias);
        self.code
            .iter()
            .any(|code| code.addresses.contains(&address))
    }
}

/// The modules at one moment.
pub struct ModuleSnapshot {
    /// Distinguishes it from other snapshots, also of other processes.
    pub(crate) number: u32,
    pub(crate) tables: Tables,
    /// Sorted by address.
    modules: Vec<PlacedModule>,
    /// The main thread's stack, from its lowest possible address to its upper end.
    pub main_stack: (u64, u64),
}

impl std::fmt::Debug for ModuleSnapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModuleSnapshot")
            .field("modules", &self.modules)
            .finish_non_exhaustive()
    }
}

impl ModuleSnapshot {
    /// Makes a snapshot of these modules. `main_stack` is documented at the field.
    #[must_use]
    pub fn new(mut modules: Vec<(PlacedModule, &Image)>, main_stack: (u64, u64)) -> Self {
        modules.sort_unstable_by_key(|(placed, _)| placed.start);
        let mut tables = Tables::new();
        for (placed, image) in &modules {
            tables.add_module(module_of(placed, image));
        }
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        Self {
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            tables,
            modules: modules.into_iter().map(|(placed, _)| placed).collect(),
            main_stack,
        }
    }

    /// The module that contains an address.
    #[must_use]
    pub fn module(&self, address: u64) -> Option<&PlacedModule> {
        let after = self
            .modules
            .partition_point(|module| module.start <= address);
        self.modules
            .get(after.checked_sub(1)?)
            .filter(|module| address < module.end)
    }

    /// Like [`Self::module`]; faster if `last` contains the address, as for most callers on a
    /// stack.
    pub(crate) fn module_near<'a>(
        &'a self,
        last: Option<&'a PlacedModule>,
        address: u64,
    ) -> Option<&'a PlacedModule> {
        last.filter(|last| (last.start..last.end).contains(&address))
            .or_else(|| self.module(address))
    }
}

impl FunctionMap for ModuleSnapshot {
    fn is_code(&self, address: u64) -> bool {
        self.module(address).is_some()
    }

    fn function_start(&self, address: u64) -> Option<u64> {
        let module = self.module(address)?;
        let start = module
            .functions
            .as_ref()?
            .containing(address.wrapping_sub(module.bias))?;
        Some(start.wrapping_add(module.bias))
    }
}

fn module_of(placed: &PlacedModule, image: &Image) -> Module<Arc<[u8]>> {
    let mut sections = ExplicitModuleSectionInfo {
        base_svma: image.addresses.start,
        ..Default::default()
    };
    if let Some((index, frames)) = &image.tables {
        sections.eh_frame_hdr_svma = Some(index.addresses.clone());
        sections.eh_frame_hdr = Some(Arc::clone(&index.bytes));
        sections.eh_frame_svma = Some(frames.addresses.clone());
        sections.eh_frame = Some(Arc::clone(&frames.bytes));
    }
    Module::new(
        String::new(),
        placed.start..placed.end,
        placed.start,
        sections,
    )
}
