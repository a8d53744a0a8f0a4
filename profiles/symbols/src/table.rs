//! Symbol tables: the function that contains an address.
//!
//! Used by [`super::module`]. Invariants: a symbol outside of code, such as a table of exceptions,
//! names nothing; of several symbols for the same code, the choice is deterministic: functions
//! before untyped symbols, global names before others, then the name with fewer leading
//! underscores.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::ops::Range;

use super::image::{RawSymbol, RawTable};
use super::place::CodeRange;

/// Number of symbols before an address that are checked for containing it.
const LOOK_BACK: usize = 16;
/// Limit on the bytes of a name.
const LONGEST_NAME: usize = 1 << 14;
/// Bytes of two names that are compared.
const COMPARED: usize = 256;
/// Limit on the extent of a symbol without a size.
const LONGEST_UNSIZED: u64 = 1 << 20;

/// The functions of a file by address.
#[derive(Debug, Default)]
pub(super) struct SymbolTable<'d> {
    /// Sorted, one for each address.
    symbols: Vec<RawSymbol>,
    texts: Cow<'d, [u8]>,
    /// The ranges of code, in order; empty if they are not known.
    code: Vec<Range<u64>>,
}

impl<'d> SymbolTable<'d> {
    /// Sorts in place, because the file decides the length of its table.
    pub(super) fn new(raw: RawTable<'d>) -> Self {
        let RawTable {
            mut symbols,
            texts,
            code,
            ..
        } = raw;
        let first = |name: u32| texts.get(name as usize).copied().unwrap_or(0);
        symbols.retain(|row| {
            !matches!(first(row.name), 0 | b'$') && code_around(&code, row.address).is_some()
        });
        symbols.sort_unstable_by_key(|row| row.address);
        symbols.dedup_by(|next, kept| {
            let is_same = next.address == kept.address;
            if is_same && rank(next, &texts) < rank(kept, &texts) {
                *kept = *next;
            }
            is_same
        });
        symbols.shrink_to_fit();
        Self {
            symbols,
            texts,
            code,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }

    /// The innermost function around an address: its linkage name and its code range.
    pub(super) fn find(&self, address: u64) -> Option<(&[u8], CodeRange)> {
        let code = code_around(&self.code, address)?;
        let after = self
            .symbols
            .partition_point(|symbol| symbol.address <= address);
        let mut next = self
            .symbols
            .get(after)
            .map_or(u64::MAX, |next| next.address);
        let before = self.symbols.get(..after)?.iter().rev().take(LOOK_BACK);
        for symbol in before {
            // A symbol without a size does not extend to another section.
            let reach = match symbol.size {
                0 if symbol.address < code.start => 0,
                0 => LONGEST_UNSIZED.min(next - symbol.address),
                size => size,
            };
            if address - symbol.address < reach {
                let code = CodeRange {
                    start: symbol.address,
                    size: symbol.size,
                };
                return Some((name_at(&self.texts, symbol.name)?, code));
            }
            next = symbol.address;
        }
        None
    }
}

/// The range of code that contains an address. Without known ranges, everything is code.
fn code_around(code: &[Range<u64>], address: u64) -> Option<Range<u64>> {
    if code.is_empty() {
        return Some(0..u64::MAX);
    }
    let after = code.partition_point(|range| range.start <= address);
    let before = code.get(..after)?.iter().rev().take(LOOK_BACK);
    before
        .into_iter()
        .find(|range| range.contains(&address))
        .cloned()
}

/// The order of symbols with one address; the least is chosen.
fn rank<'t>(row: &RawSymbol, texts: &'t [u8]) -> impl Ord + use<'t> {
    let rest = texts.get(row.name as usize..).unwrap_or_default();
    // A prefix suffices: a file may have millions of long names that are almost equal.
    let name = rest.get(..COMPARED).unwrap_or(rest);
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    let underscores = name.iter().take_while(|byte| **byte == b'_').count();
    (
        !row.is_function,
        !row.is_global,
        underscores,
        Reverse(row.size),
        name,
        row.name,
    )
}

/// The text at an offset, without the version suffix that some linkers append.
fn name_at(texts: &[u8], offset: u32) -> Option<&[u8]> {
    let rest = texts.get(offset as usize..)?;
    let rest = rest.get(..LONGEST_NAME).unwrap_or(rest);
    let name = rest.get(..rest.iter().position(|byte| *byte == 0)?)?;
    match name.iter().position(|byte| *byte == b'@') {
        Some(at) if at > 0 => name.get(..at),
        _ => Some(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXTS: &[u8] = b"\0write\0__write\0local\0$x\0old@@V1\0";

    fn symbol(name: &str, address: u64, size: u64) -> RawSymbol {
        let at = TEXTS
            .windows(name.len())
            .position(|window| window == name.as_bytes())
            .unwrap();
        RawSymbol {
            name: u32::try_from(at).unwrap(),
            is_function: true,
            is_global: true,
            address,
            size,
        }
    }

    fn table(symbols: Vec<RawSymbol>) -> SymbolTable<'static> {
        table_with(symbols, Vec::new())
    }

    fn table_with(symbols: Vec<RawSymbol>, code: Vec<Range<u64>>) -> SymbolTable<'static> {
        SymbolTable::new(RawTable {
            symbols,
            texts: Cow::Borrowed(TEXTS),
            code,
            left_out: 0,
        })
    }

    fn name(table: &SymbolTable<'_>, address: u64) -> Option<String> {
        table
            .find(address)
            .map(|(name, _)| String::from_utf8_lossy(name).into_owned())
    }

    #[test]
    fn the_plainest_of_several_names_is_chosen_in_any_order() {
        let symbols = vec![symbol("__write", 16, 8), symbol("write", 16, 8)];
        for order in [symbols.clone(), symbols.into_iter().rev().collect()] {
            let table = table(order);
            assert_eq!(name(&table, 16).as_deref(), Some("write"));
            assert_eq!(name(&table, 23).as_deref(), Some("write"));
            assert_eq!(name(&table, 24), None);
            assert_eq!(name(&table, 15), None);
        }
    }

    #[test]
    fn an_address_after_a_nested_symbol_is_in_the_outer_function() {
        let table = table(vec![symbol("write", 16, 100), symbol("local", 32, 4)]);
        assert_eq!(name(&table, 33).as_deref(), Some("local"));
        assert_eq!(
            table.find(40).unwrap(),
            (
                &b"write"[..],
                CodeRange {
                    start: 16,
                    size: 100
                }
            )
        );
    }

    #[test]
    fn a_symbol_without_size_extends_to_the_next() {
        let table = table(vec![
            symbol("local", 16, 0),
            symbol("write", 32, 4),
            symbol("$x", 20, 0),
        ]);
        assert_eq!(
            table.find(31).unwrap(),
            (&b"local"[..], CodeRange { start: 16, size: 0 })
        );
        assert_eq!(name(&table, 36), None);
    }

    #[test]
    fn a_symbol_outside_of_code_names_nothing() {
        // Code from 16 and from 64; `local` is a table before the second code.
        let symbols = vec![
            symbol("write", 16, 0),
            symbol("local", 56, 0),
            symbol("old@@V1", 80, 4),
        ];
        let table = table_with(symbols, vec![16..48, 64..96]);
        assert_eq!(name(&table, 47).as_deref(), Some("write"));
        assert_eq!(name(&table, 48), None, "not in code");
        assert_eq!(name(&table, 57), None, "data");
        assert_eq!(name(&table, 70), None, "code without a symbol of its own");
        assert_eq!(name(&table, 81).as_deref(), Some("old"));
    }

    #[test]
    fn the_version_is_not_part_of_a_name() {
        assert_eq!(
            name(&table(vec![symbol("old@@V1", 16, 4)]), 16).as_deref(),
            Some("old")
        );
    }
}
