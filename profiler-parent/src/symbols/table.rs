//! Symbol tables: the function that an address lies in.
//!
//! Used by [`super::module`]. Where several symbols name the same code, always the same one is chosen: a function
//! before what only might be one, a global name before others, the name with fewer underscores in front.

use std::borrow::Cow;
use std::cmp::Reverse;

use super::image::RawTable;
use super::place::CodeRange;

/// So many symbols before an address are looked at for one that reaches to it.
const LOOK_BACK: usize = 16;
/// Longest name that is read.
const LONGEST_NAME: usize = 1 << 14;
/// How far a symbol without a size reaches at most.
const LONGEST_UNSIZED: u64 = 1 << 20;

#[derive(Clone, Copy, Debug)]
struct Symbol {
    start: u64,
    end: u64,
    /// Where its name begins.
    name: u32,
    /// It does not say how long it is.
    unsized_: bool,
}

/// The functions of a file by address.
#[derive(Debug, Default)]
pub(super) struct SymbolTable<'d> {
    symbols: Vec<Symbol>,
    texts: Cow<'d, [u8]>,
}

impl<'d> SymbolTable<'d> {
    pub(super) fn new(raw: RawTable<'d>) -> Self {
        let RawTable { symbols: mut rows, texts } = raw;
        let named =
            |name: u32| name_at(&texts, name).filter(|name| !name.is_empty() && !name.starts_with(b"$"));
        rows.retain(|row| named(row.name).is_some());
        let underscores =
            |name| named(name).map_or(0, |name| name.iter().take_while(|byte| **byte == b'_').count());
        rows.sort_by_cached_key(|row| {
            let name = named(row.name).unwrap_or_default();
            (row.address, !row.is_function, !row.is_global, underscores(row.name), Reverse(row.size), name)
        });
        rows.dedup_by_key(|row| row.address);
        let starts: Vec<u64> = rows.iter().map(|row| row.address).skip(1).chain([u64::MAX]).collect();
        let symbols = rows.iter().zip(starts).map(|(row, next)| {
            let unsized_ = row.size == 0;
            let size = if unsized_ { (next - row.address).min(LONGEST_UNSIZED) } else { row.size };
            Symbol { start: row.address, end: row.address.saturating_add(size), name: row.name, unsized_ }
        });
        Self { symbols: symbols.collect(), texts }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }

    /// The innermost function around an address: its name as the linker knows it, and its code.
    pub(super) fn find(&self, address: u64) -> Option<(&[u8], CodeRange)> {
        let after = self.symbols.partition_point(|symbol| symbol.start <= address);
        let before = self.symbols.get(..after)?.iter().rev().take(LOOK_BACK);
        let symbol = before.into_iter().find(|symbol| address < symbol.end)?;
        let size = if symbol.unsized_ { 0 } else { symbol.end - symbol.start };
        Some((name_at(&self.texts, symbol.name)?, CodeRange { start: symbol.start, size }))
    }
}

/// The text at an offset, without the version that some linkers append.
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
    use super::super::image::RawSymbol;
    use super::*;

    const TEXTS: &[u8] = b"\0write\0__write\0local\0$x\0old@@V1\0";

    fn symbol(name: &str, address: u64, size: u64) -> RawSymbol {
        let at = TEXTS.windows(name.len()).position(|window| window == name.as_bytes()).unwrap();
        RawSymbol { name: u32::try_from(at).unwrap(), is_function: true, is_global: true, address, size }
    }

    fn table(symbols: Vec<RawSymbol>) -> SymbolTable<'static> {
        SymbolTable::new(RawTable { symbols, texts: Cow::Borrowed(TEXTS) })
    }

    fn name(table: &SymbolTable<'_>, address: u64) -> Option<String> {
        table.find(address).map(|(name, _)| String::from_utf8_lossy(name).into_owned())
    }

    #[test]
    fn of_several_names_the_plainest_is_chosen_in_any_order() {
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
    fn after_a_symbol_within_a_function_the_function_goes_on() {
        let table = table(vec![symbol("write", 16, 100), symbol("local", 32, 4)]);
        assert_eq!(name(&table, 33).as_deref(), Some("local"));
        assert_eq!(table.find(40).unwrap(), (&b"write"[..], CodeRange { start: 16, size: 100 }));
    }

    #[test]
    fn a_symbol_without_size_reaches_to_the_next() {
        let table = table(vec![symbol("local", 16, 0), symbol("write", 32, 4), symbol("$x", 20, 0)]);
        assert_eq!(table.find(31).unwrap(), (&b"local"[..], CodeRange { start: 16, size: 0 }));
        assert_eq!(name(&table, 36), None);
    }

    #[test]
    fn the_version_is_no_part_of_a_name() {
        assert_eq!(name(&table(vec![symbol("old@@V1", 16, 4)]), 16).as_deref(), Some("old"));
    }
}
