//! Finds the files whose code is loaded, their addresses and their unwinding data.
//!
//! Owned by the sampler's thread. A refresh reads the list of mappings, reads new modules from
//! memory, defines them in the pool, and makes a new [`ModuleSnapshot`] if anything changed. It makes no
//! call to the loader, because the program may hold the loader's lock for any length of time.
//!
//! A frame's address is relative to the module's bias, so it is the address that the file itself
//! uses (ELF: `p_vaddr`), for every kind of file. A program that is not relocated has bias 0.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use super::notices::{Notice, Notices};
use super::unwound::module_number;
use crate::ids::DefinitionId;
use crate::manager::ChunkManager;
use crate::pool::definitions::{Definition, ModuleDefinition};
use crate::sys::native::memory::OwnMemory;
use profiler_sys::{Mapping, Maps};
use profiler_unwind::FunctionStarts;
use profiler_unwind::GeneratedRanges;
use profiler_unwind::Image;
use profiler_unwind::{ModuleSnapshot, PlacedModule};

/// The assumed size of a main thread's stack that has no limit.
const LARGEST_MAIN_STACK: u64 = 128 << 20;

/// A file and its place, to distinguish it from another file loaded there later.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    header: u64,
    inode: u64,
    path: String,
}

/// The identity of a file for readers of a profile, at any load address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Identity {
    path: String,
    build_id: Vec<u8>,
    /// The inode of a file without a build id: another file may get its name later.
    inode: u64,
    /// The start and end of its code, relative to its bias.
    extent: (u64, u64),
}

/// The numbers of all files that were defined in this pool. A file that is loaded again keeps its
/// number, also at another address, since frames are relative to its bias. So a library that is
/// loaded repeatedly takes room once.
#[derive(Debug, Default)]
struct DefinedFiles {
    numbers: HashMap<Identity, DefinitionId>,
    bytes: usize,
}

/// The maximum number of bytes for the definitions of all files: an eighth of the room for
/// definitions. So there is still room for names of markers if every load has another path.
const MAX_DEFINED_BYTES: usize = 2 << 20;
/// The maximum number of bytes that a definition takes besides its path and build id.
const DEFINITION_BYTES: usize = 64;

#[derive(Debug)]
struct Loaded {
    image: Image,
    functions: Option<FunctionStarts>,
    id: DefinitionId,
}

/// All known modules.
#[derive(Debug)]
pub(super) struct Modules {
    maps: Maps,
    generated: GeneratedRanges,
    /// Whether the last refresh changed the ranges of generated code.
    has_new_generated_code: bool,
    loaded: HashMap<Key, Loaded>,
    defined: DefinedFiles,
    main_stack: (u64, u64),
    /// The fingerprint of the last list of mappings.
    seen: u64,
    snapshot: Arc<ModuleSnapshot>,
}

impl Modules {
    pub(super) fn new() -> Self {
        let snapshot = Arc::new(ModuleSnapshot::new(Vec::new(), (0, 0)));
        Self {
            maps: Maps::default(),
            generated: GeneratedRanges::default(),
            has_new_generated_code: false,
            loaded: HashMap::new(),
            defined: DefinedFiles::default(),
            main_stack: (0, 0),
            seen: 0,
            snapshot,
        }
    }

    /// The modules as of the last refresh.
    pub(super) const fn snapshot(&self) -> &Arc<ModuleSnapshot> {
        &self.snapshot
    }

    /// The list of mappings as of the last refresh.
    pub(super) const fn maps(&self) -> &Maps {
        &self.maps
    }

    /// The memory that may hold generated code, as of the last refresh.
    pub(super) const fn generated(&self) -> &GeneratedRanges {
        &self.generated
    }

    /// Whether the last refresh changed the memory that may hold generated code.
    pub(super) const fn has_new_generated_code(&self) -> bool {
        self.has_new_generated_code
    }

    /// Refreshes the modules. True if there is a new snapshot. Defines new files in the pool.
    pub(super) fn refresh(
        &mut self,
        memory: &OwnMemory,
        manager: &ChunkManager,
        notices: &mut Notices,
    ) -> bool {
        self.has_new_generated_code = false;
        if let Err(error) = self.maps.read() {
            notices.record(Notice::Files, || {
                format!("code that was loaded later has no names: the list of mappings cannot be read: {error}")
            });
            return false;
        }
        self.has_new_generated_code = self.generated.refresh(&self.maps);
        let main_stack = main_stack(&self.maps);
        let seen = fingerprint(&self.maps);
        if seen == self.seen && main_stack == self.main_stack {
            return false;
        }
        self.seen = seen;
        let keys = code(&self.maps);
        let mut changed = main_stack != self.main_stack || keys.len() != self.loaded.len();
        self.main_stack = main_stack;
        let mut before = std::mem::take(&mut self.loaded);
        for key in keys {
            let loaded = before.remove(&key).or_else(|| {
                changed = true;
                load(memory, manager, notices, &mut self.defined, &key)
            });
            if let Some(loaded) = loaded {
                self.loaded.insert(key, loaded);
            }
        }
        changed |= !before.is_empty();
        if changed {
            let placed = self
                .loaded
                .values()
                .map(|loaded| (placed(loaded), &loaded.image))
                .collect();
            self.snapshot = Arc::new(ModuleSnapshot::new(placed, main_stack));
        }
        changed
    }
}

fn load(
    memory: &OwnMemory,
    manager: &ChunkManager,
    notices: &mut Notices,
    defined: &mut DefinedFiles,
    key: &Key,
) -> Option<Loaded> {
    let mut image = Image::read(memory, key.header)?;
    if image.tables.is_none()
        && let Some(file) = file_of(key)
    {
        image.find_tables(&file, memory);
    }
    let functions = image.functions();
    let mut loaded = Loaded {
        image,
        functions,
        id: DefinitionId::NONE,
    };
    // Without room for the definition, addresses in it are unknown; unwinding still works.
    loaded.id = defined
        .number(manager, notices, key, &loaded)
        .unwrap_or(DefinitionId::NONE);
    Some(loaded)
}

/// Opens the file of a module, if it still has its path. Does not wait for another process, as
/// opening a pipe would.
fn file_of(key: &Key) -> Option<File> {
    use rustix::fs::{Mode, OFlags, open};
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    if !key.path.starts_with('/') {
        return None;
    }
    let file = File::from(open(key.path.as_str(), flags, Mode::empty()).ok()?);
    let about = file.metadata().ok()?;
    (about.is_file() && about.ino() == key.inode).then_some(file)
}

impl DefinedFiles {
    /// The number of a file, which is defined here if it is new. `None` if there is no room for it.
    fn number(
        &mut self,
        manager: &ChunkManager,
        notices: &mut Notices,
        key: &Key,
        loaded: &Loaded,
    ) -> Option<DefinitionId> {
        let Image {
            build_id,
            addresses,
            ..
        } = &loaded.image;
        let inode = if build_id.is_empty() { key.inode } else { 0 };
        let extent = (addresses.start, addresses.end);
        let identity = Identity {
            path: key.path.clone(),
            build_id: build_id.clone(),
            inode,
            extent,
        };
        if let Some(number) = self.numbers.get(&identity) {
            return Some(*number);
        }
        let bytes = self.bytes + DEFINITION_BYTES + identity.path.len() + identity.build_id.len();
        if bytes > MAX_DEFINED_BYTES {
            notices.record(Notice::ManyFiles, || {
                "later code has no names: too many files were loaded".to_owned()
            });
            return None;
        }
        let PlacedModule {
            start, end, bias, ..
        } = placed(loaded);
        let path = identity.path.clone();
        let build_id = identity.build_id.clone();
        let definition = Definition::Module(ModuleDefinition {
            path,
            build_id,
            base: bias,
            start,
            end,
        });
        let number = manager.pool().define(&definition).ok()?;
        self.bytes = bytes;
        self.numbers.insert(identity, number);
        Some(number)
    }
}

fn placed(loaded: &Loaded) -> PlacedModule {
    let Image {
        bias, addresses, ..
    } = &loaded.image;
    let at = |address: u64| bias.wrapping_add(address);
    PlacedModule {
        start: at(addresses.start),
        end: at(addresses.end),
        bias: *bias,
        number: module_number(loaded.id),
        code: Arc::clone(&loaded.image.code),
        functions: loaded.functions.clone(),
    }
}

/// A number that changes when the mapped files or their addresses change. Allocates nothing.
fn fingerprint(maps: &Maps) -> u64 {
    use std::hash::{Hash, Hasher};
    let mut hasher = std::hash::DefaultHasher::new();
    maps.iter()
        .filter(is_file)
        .for_each(|line| (line.start, line.inode, line.path).hash(&mut hasher));
    hasher.finish()
}

fn is_file(line: &Mapping<'_>) -> bool {
    line.readable && (line.inode != 0 || line.path == "[vdso]")
}

/// The files with mapped code, each by the mapping of its first bytes.
fn code(maps: &Maps) -> Vec<Key> {
    let mut found: Vec<Key> = Vec::new();
    let mut header: Option<Mapping<'_>> = None;
    for line in maps.iter().filter(is_file) {
        let goes_on =
            header.is_some_and(|header| header.inode == line.inode && header.path == line.path);
        if line.offset == 0 && !(goes_on && line.executable) {
            header = Some(line);
        } else if !goes_on {
            header = None;
        }
        if let Some(first) = header.filter(|_| line.executable)
            && found.last().is_none_or(|last| last.header != first.start)
        {
            let path = first.path.strip_suffix(" (deleted)").unwrap_or(first.path);
            found.push(Key {
                header: first.start,
                inode: first.inode,
                path: path.to_owned(),
            });
        }
    }
    found
}

/// The range that the main thread's stack may occupy: it grows down.
fn main_stack(maps: &Maps) -> (u64, u64) {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Stack).current;
    let most = limit.unwrap_or(LARGEST_MAIN_STACK).min(LARGEST_MAIN_STACK);
    let stack = maps.iter().find(|line| line.path == "[stack]");
    stack.map_or((0, 0), |stack| {
        (stack.start.min(stack.end.saturating_sub(most)), stack.end)
    })
}
