//! The frames of all processes without duplicates, and the functions that they stand for.
//!
//! Code is identified by its file and its address in the file, so processes that run the same
//! program share frames. A frame stands for one function named like `libfoo.so+0x1f` until its
//! names are looked up; afterwards, it stands for the function at its address and the functions
//! that the compiler inlined there. A request refers to a function by its [`FunctionId`], which is
//! the same as long as the session lasts; the id of an address remains valid when its names are
//! known. Invariants: every frame stands for at least one function; all tables are bounded, and
//! what does not fit becomes one frame or one function.

mod ids;
mod process_frames;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use profiler_gecko::frame_names::{TRUNCATED_STACK, module_name};
use profiler_json::interner::Interner;
use serde::Serialize;

use crate::stack_tree::FrameNumber;
pub(crate) use ids::FunctionId;
use ids::FunctionIds;
pub(crate) use process_frames::{KnownModules, ProcessFrames};
use profiler_symbols::{Place, without_name};

/// Limits on the frames, functions and files of a session.
const MAX_FRAMES: usize = 1 << 18;
const MAX_FUNCTIONS: usize = 1 << 18;
const MAX_MODULES: usize = 1 << 14;
/// Limit on the bytes of all names of functions.
const MAX_TEXT: usize = 32 << 20;
/// The longest name of a function, and the longest path of a file, in bytes.
const LONGEST_NAME: usize = 1024;
const LONGEST_PATH: usize = 4096;
/// Limit on the bytes of a build id. The linkers write 8 to 32.
const LONGEST_BUILD_ID: usize = 64;
/// Limit on the functions that are inlined at one address.
const MAX_INLINED: usize = 64;

/// Number of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FunctionNumber(pub(crate) u32);

/// Number of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ModuleNumber(pub(crate) u32);

/// What a function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FunctionKind {
    /// A function of a program or library.
    Code,
    /// Code whose name is not known, or not yet.
    Address,
    /// A label that the program set.
    Label,
    /// Stands for something that is missing.
    Placeholder,
}

/// A function as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Function {
    pub(crate) name: Arc<str>,
    pub(crate) module: Option<ModuleNumber>,
    pub(crate) kind: FunctionKind,
}

/// A file whose code ran.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Module {
    pub(crate) path: String,
    pub(crate) build_id: Vec<u8>,
}

impl Module {
    /// The file's name without its directory.
    pub(crate) fn name(&self) -> &str {
        module_name(&self.path)
    }
}

/// A frame of any process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum SharedFrame {
    /// The instruction at this address of a file.
    Code(ModuleNumber, u64),
    Unknown(u64),
    Function(FunctionNumber),
}

/// Addresses of a file whose names are to be looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnnamedCode {
    pub(crate) number: ModuleNumber,
    pub(crate) module: Module,
    pub(crate) frames: Vec<(FrameNumber, u64)>,
}

/// The frames and functions of a session.
#[derive(Debug)]
pub(crate) struct FrameTable {
    frames: Interner<SharedFrame>,
    /// By frame: the functions that it stands for, outermost first.
    functions_of: Vec<Box<[FunctionNumber]>>,
    functions: Interner<Function>,
    ids: FunctionIds,
    /// By function that stands for an address: the frame of the address.
    frame_of: HashMap<FunctionNumber, FrameNumber>,
    modules: Interner<Module>,
    /// By module: code without names that was not looked up.
    unnamed: BTreeMap<ModuleNumber, Vec<(FrameNumber, u64)>>,
    /// Number of frames that are looked up, or are to be.
    pending: usize,
    text: usize,
    lost: u64,
    truncated: FunctionNumber,
    too_many: FunctionNumber,
    no_stack: FunctionNumber,
}

impl Default for FrameTable {
    fn default() -> Self {
        let mut table = Self {
            frames: Interner::default(),
            functions_of: Vec::new(),
            functions: Interner::default(),
            ids: FunctionIds::default(),
            frame_of: HashMap::new(),
            modules: Interner::default(),
            unnamed: BTreeMap::new(),
            pending: 0,
            text: 0,
            lost: 0,
            truncated: FunctionNumber(0),
            too_many: FunctionNumber(0),
            no_stack: FunctionNumber(0),
        };
        table.truncated = table.function(TRUNCATED_STACK, None, FunctionKind::Placeholder);
        table.too_many = table.function("(too many functions)", None, FunctionKind::Placeholder);
        table.no_stack = table.function("(no stack)", None, FunctionKind::Placeholder);
        for placeholder in [table.truncated, table.too_many] {
            table.frame(SharedFrame::Function(placeholder), |_| placeholder);
        }
        table
    }
}

impl FrameTable {
    /// The functions that a frame stands for, outermost first.
    pub(crate) fn functions_of(&self, frame: FrameNumber) -> &[FunctionNumber] {
        let functions = self.functions_of.get(frame.0 as usize);
        functions.map_or(std::slice::from_ref(&self.too_many), |known| known)
    }

    /// The function that stands for an empty stack.
    pub(crate) const fn no_stack(&self) -> FunctionNumber {
        self.no_stack
    }

    /// Number of functions.
    pub(crate) fn function_count(&self) -> usize {
        self.functions.all().len()
    }

    /// All functions in the order of their numbers.
    pub(crate) fn functions(&self) -> impl Iterator<Item = &Function> {
        self.functions.all().iter()
    }

    /// A function as it is shown.
    pub(crate) fn shown(&self, function: FunctionNumber) -> Option<&Function> {
        self.functions.all().get(function.0 as usize)
    }

    /// Identifies a function in requests.
    pub(crate) fn id(&self, function: FunctionNumber) -> Option<FunctionId> {
        self.ids.of(function)
    }

    /// The functions on a path, as they are shown now: an address whose names were looked up since
    /// the path was made is replaced by the functions that it stands for. `None` if a function of
    /// the path has not occurred. The path of an inverted tree leads from a function to its
    /// callers.
    pub(crate) fn resolve(
        &self,
        path: &[FunctionId],
        is_inverted: bool,
    ) -> Option<Vec<FunctionNumber>> {
        let mut resolved = Vec::with_capacity(path.len());
        for id in path {
            let number = self.ids.function(*id)?;
            let own = [number];
            let frame = self.frame_of.get(&number);
            let functions = frame.map_or(&own[..], |frame| self.functions_of(*frame));
            if is_inverted {
                resolved.extend(functions.iter().rev());
            } else {
                resolved.extend(functions);
            }
        }
        Some(resolved)
    }

    /// The file of a function; empty if it has none.
    pub(crate) fn module_name(&self, function: &Function) -> &str {
        let module = function
            .module
            .and_then(|module| self.modules.all().get(module.0 as usize));
        module.map_or("", Module::name)
    }

    /// Number of frames whose names are not known yet.
    pub(crate) const fn pending(&self) -> usize {
        self.pending
    }

    /// Number of times that a frame or a name did not fit.
    pub(crate) const fn lost(&self) -> u64 {
        self.lost
    }

    /// Takes the code that has no names yet, of the files that are due.
    pub(crate) fn take_unnamed(
        &mut self,
        is_due: impl Fn(ModuleNumber) -> bool,
    ) -> Vec<UnnamedCode> {
        let due = self.unnamed.extract_if(.., |module, _| is_due(*module));
        let due: Vec<_> = due.collect();
        let of = |(number, frames): (ModuleNumber, Vec<_>)| {
            let module = self.modules.all().get(number.0 as usize)?.clone();
            Some(UnnamedCode {
                number,
                module,
                frames,
            })
        };
        due.into_iter().filter_map(of).collect()
    }

    /// Gives a frame of this file the names that were looked up. Without names, it keeps its
    /// address.
    pub(crate) fn name(&mut self, module: ModuleNumber, frame: FrameNumber, place: &Place) {
        self.pending = self.pending.saturating_sub(1);
        if !place.is_named() {
            return;
        }
        let outer_first = place.frames.iter().rev().take(MAX_INLINED);
        let functions: Box<[FunctionNumber]> = outer_first
            .map(|frame| {
                let name = frame.function.as_deref().unwrap_or("(unnamed)");
                self.function(name, Some(module), FunctionKind::Code)
            })
            .collect();
        if let Some(known) = self.functions_of.get_mut(frame.0 as usize) {
            *known = functions;
        }
    }

    fn function(
        &mut self,
        name: &str,
        module: Option<ModuleNumber>,
        kind: FunctionKind,
    ) -> FunctionNumber {
        let name: Arc<str> = start_of(name, LONGEST_NAME).into();
        let bytes = name.len();
        let most = if self.text.saturating_add(bytes) > MAX_TEXT {
            0
        } else {
            MAX_FUNCTIONS
        };
        let before = self.functions.all().len();
        let number = self.functions.intern(Function { name, module, kind }, most);
        let number = number.map(FunctionNumber);
        if let Some(added) = number.filter(|_| self.functions.all().len() > before) {
            self.text += bytes;
            if let Some(function) = self.functions.all().get(added.0 as usize) {
                let module = module.and_then(|module| self.modules.all().get(module.0 as usize));
                self.ids.add(added, function, module);
            }
        }
        self.lost += u64::from(number.is_none());
        number.unwrap_or(self.too_many)
    }

    /// The number of a frame. A new one stands for the function that `shown` returns.
    fn frame(
        &mut self,
        frame: SharedFrame,
        shown: impl FnOnce(&mut Self) -> FunctionNumber,
    ) -> FrameNumber {
        let before = self.frames.all().len();
        let Some(number) = self.frames.intern(frame, MAX_FRAMES) else {
            self.lost += 1;
            return FrameNumber(1); // the frame of `too_many`
        };
        let number = FrameNumber(number);
        if self.frames.all().len() > before {
            let function = shown(self);
            self.functions_of.push(Box::new([function]));
            if let SharedFrame::Code(module, address) = frame {
                self.unnamed
                    .entry(module)
                    .or_default()
                    .push((number, address));
                self.pending += 1;
                if function != self.too_many {
                    self.frame_of.insert(function, number);
                }
            }
        }
        number
    }
}

impl FrameTable {
    /// The number of a file; `None` if it does not fit. No real build id is too long.
    fn module(&mut self, path: &str, build_id: &[u8]) -> Option<ModuleNumber> {
        if build_id.len() > LONGEST_BUILD_ID {
            return None;
        }
        let module = Module {
            path: start_of(path, LONGEST_PATH).to_owned(),
            build_id: build_id.to_vec(),
        };
        self.modules.intern(module, MAX_MODULES).map(ModuleNumber)
    }

    fn code(&mut self, module: ModuleNumber, address: u64) -> FrameNumber {
        self.frame(SharedFrame::Code(module, address), |table| {
            let path = table.modules.all().get(module.0 as usize);
            let name = without_name(path.map_or("", |module| &module.path), address);
            table.function(&name, Some(module), FunctionKind::Address)
        })
    }

    fn unknown(&mut self, address: u64) -> FrameNumber {
        self.frame(SharedFrame::Unknown(address), |table| {
            table.function(&format!("{address:#x}"), None, FunctionKind::Address)
        })
    }
}

/// The longest prefix of a text with at most `most` bytes, cut between characters.
pub(crate) fn start_of(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
