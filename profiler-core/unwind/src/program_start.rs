//! Recognises the stack of a program's first function.
//!
//! Called by `without_tables` for a stack that ends in a function without unwinding tables, with a
//! null frame pointer. The system prepares the stack of a new program like this (System V ABI,
//! "Initial Stack and Register State"; `fs/binfmt_elf.c` of Linux):
//!
//! ```text
//! stack pointer ─▶ number of arguments
//!                  addresses of the arguments, null
//!                  addresses of the environment's variables, null
//!                  auxiliary vector: pairs of a type and a value; the last has the type 0
//!                  the texts
//! ```
//!
//! Invariants: any words are accepted. The number of words that are read is bounded.

/// The number of words between the stack pointer of the first function and the number of the
/// arguments: it aligns the stack pointer, and pushes arguments of the C library's function.
const WORDS_OF_START: u64 = 8;
/// The maximum number of arguments, and of variables of the environment.
const MAX_TEXTS: u64 = 4096;
/// The maximum number of pairs in the auxiliary vector. Linux 6.18 has 25.
const MAX_PAIRS: u64 = 64;
/// The type of the pair that has the size of a page.
const AT_PAGESZ: u64 = 6;
/// The largest page of a system.
const MAX_PAGE: u64 = 64 << 10;

/// Whether a stack pointer is that of a program's first function.
pub(crate) fn is_program_start(sp: u64, read: &dyn Fn(u64) -> Result<u64, ()>) -> bool {
    let first = sp & !7;
    let mut places = (0..=WORDS_OF_START).filter_map(|word| place(first, word));
    places.any(|place| is_initial_stack(place, read) == Some(true))
}

fn place(start: u64, words: u64) -> Option<u64> {
    start.checked_add(words.checked_mul(8)?)
}

/// Whether the number of a program's arguments is at an address. `None` if a word is missing.
fn is_initial_stack(count_at: u64, read: &dyn Fn(u64) -> Result<u64, ()>) -> Option<bool> {
    let word = |address| read(address).ok();
    let count = word(count_at).filter(|count| (1..=MAX_TEXTS).contains(count))?;
    let null = place(count_at, 1 + count)?;
    if word(null)? != 0 || word(place(count_at, 1)?)? <= null {
        return Some(false);
    }
    let mut variables = 1..=MAX_TEXTS;
    let end = variables.find(|variable| place(null, *variable).and_then(word) == Some(0))?;
    Some(is_auxiliary_vector(place(null, end + 1)?, &word))
}

/// Whether an auxiliary vector is at an address: it tells the size of the system's pages.
fn is_auxiliary_vector(start: u64, word: &dyn Fn(u64) -> Option<u64>) -> bool {
    let kind = |pair: u64| place(start, pair * 2).and_then(word);
    let value = |pair: u64| place(start, pair * 2 + 1).and_then(word);
    let mut pairs = (0..MAX_PAIRS).take_while(|pair| kind(*pair).is_some_and(|kind| kind != 0));
    pairs.any(|pair| kind(pair) == Some(AT_PAGESZ) && value(pair).is_some_and(is_page_size))
}

fn is_page_size(size: u64) -> bool {
    size.is_power_of_two() && (4096..=MAX_PAGE).contains(&size)
}
