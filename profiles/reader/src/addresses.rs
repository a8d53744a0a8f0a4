//! The libraries of a profile's process, and the search for the library that contains an address.
//!
//! Used to name the addresses of a profile in the Gecko format. No value in a file is trusted:
//! spans may overlap, be empty, or not be numbers.

use serde::Deserialize;

use super::table::Number;

/// A library, and its location in its process.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Lib {
    /// Display name.
    pub name: String,
    /// The path of its file.
    pub path: String,
    /// The name by which symbols are requested.
    pub debug_name: String,
    /// The identifier by which symbols are requested.
    pub breakpad_id: String,
    /// Its build id in hexadecimal.
    pub code_id: Option<String>,
    /// Its first address.
    start: Option<Number>,
    /// One past its last address.
    end: Option<Number>,
    /// The file's own address that corresponds to `start`.
    offset: Option<Number>,
}

impl Lib {
    /// The address relative to the library, if the library contains it.
    fn relative(&self, address: f64) -> Option<f64> {
        let number = |number: &Option<Number>| number.map_or(f64::NAN, |number| number.0);
        let start = number(&self.start);
        let end = number(&self.end);
        let offset = number(&self.offset);
        let offset = if offset.is_finite() { offset } else { 0.0 };
        (address >= start && address < end).then_some(address - start + offset)
    }
}

/// The libraries of a process, ordered by start address.
#[derive(Debug)]
pub(crate) struct AddressMap<'l>(Vec<(f64, &'l Lib)>);

/// The number of libraries before an address that are tried. Mappings do not overlap, but the spans
/// of two libraries may.
const MAX_TRIED: usize = 8;

impl<'l> AddressMap<'l> {
    /// Sorts the libraries by start address.
    pub(crate) fn of(libs: &'l [Lib]) -> Self {
        let start = |lib: &Lib| {
            lib.start
                .map(|start| start.0)
                .filter(|start| start.is_finite())
        };
        let mut libs: Vec<_> = libs
            .iter()
            .filter_map(|lib| Some((start(lib)?, lib)))
            .collect();
        libs.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        Self(libs)
    }

    /// Parses a text as an address, and finds the library that contains it.
    pub(crate) fn find(&self, text: &str) -> Option<(&'l Lib, u64)> {
        let digits = text
            .strip_prefix("0x")
            .filter(|digits| digits.len() <= 16)?;
        // exact below 2^53; user code lies below
        let address = u64::from_str_radix(digits, 16).ok()? as f64;
        let beyond = self.0.partition_point(|(start, _)| *start <= address);
        let mut before = self.0.get(..beyond)?.iter().rev().take(MAX_TRIED);
        before.find_map(|(_, lib)| Some((*lib, lib.relative(address)? as u64)))
    }
}

/// The address of the code that ran. The address of a caller is a return address: the byte after
/// the call.
pub(super) const fn code_of(address: u64, is_leaf: bool) -> u64 {
    if is_leaf {
        address
    } else {
        address.saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_found_in_its_library_in_an_unsorted_list() {
        let lib = |name: &str, start: f64, end: f64| Lib {
            name: name.into(),
            start: Some(Number(start)),
            end: Some(Number(end)),
            ..Lib::default()
        };
        let nowhere = Lib {
            name: "nowhere".into(),
            ..Lib::default()
        };
        let libs = [
            lib("c", 48.0, 64.0),
            nowhere,
            lib("outer", 0.0, 64.0),
            lib("a", 16.0, 32.0),
        ];
        let map = AddressMap::of(&libs);
        let found = |text| {
            map.find(text)
                .map(|(lib, address)| (lib.name.as_str(), address))
        };
        assert_eq!(found("0x10"), Some(("a", 0)));
        assert_eq!(
            found("0x20"),
            Some(("outer", 32)),
            "between the libraries inside it"
        );
        assert_eq!(found("0x3f"), Some(("c", 15)));
        assert_eq!(found("0x40"), None);
    }
}
