//! The files that the loader has loaded into this process: looks functions up behind this library,
//! and writes the list of files for the session.
//!
//! Uses `dl_iterate_phdr`, the only function of the C library that this library is linked with: it
//! exists in every C library with shared libraries. `dlsym` is not in the C library itself before
//! glibc 2.34, may allocate, and leaves an error message for the program.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_HASH: usize = 4;
const DT_STRTAB: usize = 5;
const DT_SYMTAB: usize = 6;
const DT_VERSYM: usize = 0x6fff_fff0;
const DT_GNU_HASH: usize = 0x6fff_fef5;
/// The type of a symbol whose address a function of the library chooses when it is first used.
const STT_GNU_IFUNC: u8 = 10;
const HIDDEN_VERSION: u16 = 0x8000;

/// `struct dl_phdr_info`, as far as it is used.
#[repr(C)]
pub(crate) struct File {
    bias: usize,
    name: *const c_char,
    headers: *const ProgramHeader,
    count: u16,
}

/// `Elf64_Phdr`.
#[repr(C)]
struct ProgramHeader {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    physical: u64,
    file_bytes: u64,
    bytes: u64,
    alignment: u64,
}

/// `Elf64_Sym`.
#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: usize,
    bytes: u64,
}

unsafe extern "C" {
    fn dl_iterate_phdr(
        each: unsafe extern "C" fn(*const File, usize, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
}

/// Calls a function for each file, in the order in which the loader searches them, until it returns
/// true.
pub(crate) fn for_each(each: &mut dyn FnMut(&File) -> bool) {
    unsafe extern "C" fn call(file: *const File, _: usize, argument: *mut c_void) -> c_int {
        // SAFETY: the pointer that is passed below, which outlives the call.
        let each = unsafe { argument.cast::<&mut dyn FnMut(&File) -> bool>().as_mut() };
        // SAFETY: the loader passes a valid description.
        match (unsafe { file.as_ref() }, each) {
            (Some(file), Some(each)) => c_int::from(each(file)),
            _ => 1,
        }
    }
    let mut each = each;
    // SAFETY: `call` has the type that the loader calls, and the argument outlives the call.
    unsafe { dl_iterate_phdr(call, (&raw mut each).cast()) };
}

impl File {
    /// The path; empty for the program itself.
    pub(crate) fn name(&self) -> &[u8] {
        if self.name.is_null() {
            return &[];
        }
        // SAFETY: the loader's names end with a zero, and stay while the file is loaded.
        unsafe { CStr::from_ptr(self.name) }.to_bytes()
    }

    fn headers(&self) -> &[ProgramHeader] {
        if self.headers.is_null() {
            return &[];
        }
        // SAFETY: the loader's description of a loaded file.
        unsafe { core::slice::from_raw_parts(self.headers, usize::from(self.count)) }
    }

    /// The addresses of the file in memory, from the first to the end of the last.
    pub(crate) fn extent(&self) -> (usize, usize) {
        let loads = || {
            self.headers()
                .iter()
                .filter(|header| header.kind == PT_LOAD)
        };
        let first = loads()
            .map(|header| header.address as usize)
            .min()
            .unwrap_or(0);
        let last = loads()
            .map(|header| header.address.wrapping_add(header.bytes) as usize)
            .max()
            .unwrap_or(0);
        (self.bias.wrapping_add(first), self.bias.wrapping_add(last))
    }

    fn contains(&self, address: usize) -> bool {
        let (start, end) = self.extent();
        (start..end).contains(&address)
    }

    /// The file's table of symbols.
    fn symbols(&self) -> Option<Symbols> {
        let dynamic = self
            .headers()
            .iter()
            .find(|header| header.kind == PT_DYNAMIC)?;
        let mut entry = self.at::<[usize; 2]>(dynamic.address as usize);
        let mut symbols = Symbols {
            bias: self.bias,
            ..Symbols::NONE
        };
        loop {
            // SAFETY: the dynamic section of a loaded file ends with an entry of kind 0.
            let [kind, value] = unsafe { entry.read() };
            match kind {
                0 => break,
                DT_HASH => symbols.hash = self.pointer(value),
                DT_GNU_HASH => symbols.gnu_hash = self.pointer(value),
                DT_STRTAB => symbols.names = self.pointer(value),
                DT_SYMTAB => symbols.table = self.pointer(value),
                DT_VERSYM => symbols.versions = self.pointer(value),
                _ => {}
            }
            entry = entry.wrapping_add(1);
        }
        (!symbols.names.is_null() && !symbols.table.is_null()).then_some(symbols)
    }

    fn at<T>(&self, address: usize) -> *const T {
        ptr::with_exposed_provenance(self.bias.wrapping_add(address))
    }

    /// The address that an entry of the dynamic section names. glibc has added the bias to it, musl
    /// and the kernel's own library have not.
    fn pointer<T>(&self, value: usize) -> *const T {
        if self.contains(value) {
            ptr::with_exposed_provenance(value)
        } else {
            self.at(value)
        }
    }
}

/// A file's table of symbols.
pub(crate) struct Symbols {
    bias: usize,
    table: *const Symbol,
    names: *const c_char,
    versions: *const u16,
    gnu_hash: *const u32,
    hash: *const u32,
}

impl Symbols {
    const NONE: Self = Self {
        bias: 0,
        table: ptr::null(),
        names: ptr::null(),
        versions: ptr::null(),
        gnu_hash: ptr::null(),
        hash: ptr::null(),
    };

    /// The address of a function that the file defines.
    pub(crate) fn function(&self, name: &Name) -> Option<usize> {
        if self.gnu_hash.is_null() {
            self.function_by_hash(name.text)
        } else {
            self.function_by_gnu_hash(name)
        }
    }

    /// The address of this symbol, if it defines the name in its default version.
    fn definition(&self, number: u32, name: &CStr) -> Option<usize> {
        // SAFETY: the number comes from the file's own hash table.
        let symbol = unsafe { self.table.wrapping_add(number as usize).as_ref() }?;
        // SAFETY: a name of the file's own table.
        let own_name = unsafe { CStr::from_ptr(self.names.wrapping_add(symbol.name as usize)) };
        let is_default = self.versions.is_null()
            // SAFETY: there is a version for each symbol.
            || unsafe { self.versions.wrapping_add(number as usize).read() } & HIDDEN_VERSION == 0;
        let is_function = symbol.info & 15 != STT_GNU_IFUNC && symbol.value != 0;
        (symbol.section != 0 && is_default && is_function && own_name == name)
            .then(|| self.bias.wrapping_add(symbol.value))
    }

    /// Looks up in the table that `DT_GNU_HASH` names: a filter that knows most names that are not
    /// there, and buckets of symbols with hashes, which are sorted by bucket.
    fn function_by_gnu_hash(&self, name: &Name) -> Option<usize> {
        let word = |at: usize| {
            // SAFETY: inside the file's own table, which its own numbers describe.
            unsafe { self.gnu_hash.wrapping_add(at).read() }
        };
        let (buckets, first, filters, shift) = (word(0), word(1), word(2), word(3));
        let hash = name.gnu_hash;
        let filter = (hash / 64).checked_rem(filters)? as usize;
        let filter = u64::from(word(4 + filter * 2)) | u64::from(word(5 + filter * 2)) << 32;
        let bits = 1_u64 << (hash % 64) | 1 << (hash.wrapping_shr(shift) % 64);
        if filter & bits != bits {
            return None;
        }
        let buckets_at = 4 + filters as usize * 2;
        let chains_at = buckets_at + buckets as usize;
        let mut number = word(buckets_at + hash.checked_rem(buckets)? as usize);
        while number >= first && number != 0 {
            let seen = word(chains_at + (number - first) as usize);
            if seen | 1 == hash | 1
                && let Some(found) = self.definition(number, name.text)
            {
                return Some(found);
            }
            if seen & 1 != 0 {
                return None;
            }
            number = number.wrapping_add(1);
        }
        None
    }

    /// Looks up in the older table, which `DT_HASH` names.
    fn function_by_hash(&self, name: &CStr) -> Option<usize> {
        if self.hash.is_null() {
            return None;
        }
        let word = |at: usize| {
            // SAFETY: as above.
            unsafe { self.hash.wrapping_add(at).read() }
        };
        let buckets = word(0);
        let mut number = word(2 + sysv_hash(name).checked_rem(buckets)? as usize);
        while number != 0 {
            if let Some(found) = self.definition(number, name) {
                return Some(found);
            }
            number = word(2 + (buckets + number) as usize);
        }
        None
    }
}

/// A name to look up, with its hash.
#[derive(Debug)]
pub(crate) struct Name {
    text: &'static CStr,
    gnu_hash: u32,
}

impl Name {
    pub(crate) const fn new(text: &'static CStr) -> Self {
        let mut gnu_hash = 5381_u32;
        let mut rest = text.to_bytes();
        while let [first, more @ ..] = rest {
            gnu_hash = gnu_hash.wrapping_mul(33).wrapping_add(*first as u32);
            rest = more;
        }
        Self { text, gnu_hash }
    }
}

fn sysv_hash(name: &CStr) -> u32 {
    let step = |hash: u32, byte: &u8| {
        let hash = hash.wrapping_shl(4).wrapping_add(u32::from(*byte));
        let high = hash & 0xf000_0000;
        (hash ^ high >> 24) & !high
    };
    name.to_bytes().iter().fold(0, step)
}

/// Calls a function for the symbols of each file behind this library, until it returns true: the
/// files in which the program would find a function without this library.
pub(crate) fn for_each_behind(each: &mut dyn FnMut(&Symbols) -> bool) {
    let own = for_each_behind as *const () as usize;
    let mut is_behind = false;
    for_each(&mut |file| {
        let ends = is_behind && file.symbols().is_some_and(|symbols| each(&symbols));
        is_behind |= file.contains(own);
        ends
    });
}

/// The function of this name in the first file behind this library that has it.
pub(crate) fn next_function(name: &Name) -> Option<usize> {
    let mut found = None;
    for_each_behind(&mut |symbols| {
        found = symbols.function(name);
        found.is_some()
    });
    found
}
