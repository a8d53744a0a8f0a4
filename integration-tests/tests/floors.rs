//! Test of the tables in ARCHITECTURE.md: every top-level module of a crate (a "room") is on a
//! floor of the crate's table, and imports only from rooms on lower floors.
//!
//! The tables are the only data; this file has no list of rooms. `table` reads the tables.
//! `sources` reads the modules of a crate and collects the paths that begin at its root. Code for
//! tests (`#[cfg(test)]`) may import from any floor.

use std::path::Path;

#[path = "floors/sources.rs"]
mod sources;
#[path = "floors/table.rs"]
mod table;
#[path = "floors/tokens.rs"]
mod tokens;

use sources::{Import, Sources, Target};
use table::Floors;

/// The crates whose tables have floors.
const CRATES: [&str; 11] = [
    "integrations/log",
    "integrations/metrics",
    "integrations/panic",
    "integrations/rayon",
    "integrations/tokio",
    "integrations/tracing",
    "profiler-agent",
    "profiler-core",
    "profiler-child",
    "profiler-parent",
    "ipc-protocol",
];

#[test]
fn every_room_imports_only_from_lower_floors() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let document = std::fs::read_to_string(workspace.join("ARCHITECTURE.md")).unwrap();
    let found: Vec<String> = CRATES
        .iter()
        .flat_map(|name| check(workspace, &document, name))
        .collect();
    assert!(
        found.is_empty(),
        "the code and ARCHITECTURE.md differ:\n{}",
        found.join("\n")
    );
}

/// The differences between a crate and its table, one line each.
fn check(workspace: &Path, document: &str, name: &str) -> Vec<String> {
    let floors = match Floors::parse(document, name) {
        Ok(floors) => floors,
        Err(problem) => return vec![problem],
    };
    let sources = Sources::read(workspace, name);
    let without_row = sources
        .rooms
        .iter()
        .filter(|room| floors.of(room).is_none());
    let without_row =
        without_row.map(|room| format!("{name}: ARCHITECTURE.md has no row for room `{room}`"));
    let without_room = floors.rooms().filter(|room| !sources.rooms.contains(*room));
    let without_room = without_room
        .map(|room| format!("{name}: ARCHITECTURE.md has a row for `{room}`, which is no room"));
    let upward = sources
        .imports
        .iter()
        .filter_map(|import| upward(&floors, &sources, import));
    without_row.chain(without_room).chain(upward).collect()
}

/// The line for an import that does not lead to a lower floor.
fn upward(floors: &Floors, sources: &Sources, import: &Import) -> Option<String> {
    let Import {
        file,
        line,
        room,
        name,
        ..
    } = import;
    let target = match sources.target(import) {
        Target::Room(target) => target,
        Target::Outside => return None,
        Target::Unknown => {
            return Some(format!(
                "{file}:{line}: room `{room}` imports `{name}`, whose room is not known"
            ));
        }
    };
    let from = floors.of(room)?;
    let to = floors.of(target)?;
    (target != room && to >= from).then(|| {
        format!(
            "{file}:{line}: room `{room}` (floor {from}) imports from room `{target}` (floor {to}), \
             which is not below it"
        )
    })
}

mod tests {
    use super::*;

    const DOCUMENT: &str = "# Map\n\n## sample, ground floor first\n\n\
        | floor | room | holds |\n|---|---|---|\n\
        | 1 | `low/` (`inner`) | the lower one |\n| 2 | `high` | the upper one |\n\n## other\n";

    /// Checks a crate of two rooms. The lower room contains the text `low`.
    fn check_low(low: &str) -> Vec<String> {
        let workspace = tempfile::tempdir().unwrap();
        let directory = workspace.path().join("sample/src/low");
        std::fs::create_dir_all(&directory).unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(directory.parent().unwrap().join(name), text).unwrap();
        };
        write(
            "lib.rs",
            "mod high;\nmod low;\npub use high::Thing as Alias;\npub use std::fmt;\n",
        );
        write(
            "high.rs",
            "use crate::low;\n#[macro_export]\nmacro_rules! high { () => { $crate::low::f() }; }\n",
        );
        write("low/mod.rs", "mod inner;\n");
        write("low/inner.rs", low);
        check(workspace.path(), DOCUMENT, "sample")
    }

    #[test]
    fn every_form_of_an_upward_import_is_reported() {
        for form in [
            "use crate::high::Thing;",
            "use crate::{fmt, high::Thing};",
            "use super::super::high;",
            "use super::super::{fmt, high};",
            "fn f() { crate::high::g(); }",
            "mod deep { use super::super::super::high; }",
            "macro_rules! m { () => { $crate::high::g() }; }",
            "fn f() { crate::high!(); }",
            "fn f() { high!(); }",
            "use crate::Alias;",
        ] {
            let expected = "sample/src/low/inner.rs:2: room `low` (floor 1) imports from room `high` \
                            (floor 2), which is not below it";
            assert_eq!(
                check_low(&format!("//! Inner.\n{form}\n")),
                [expected],
                "{form}"
            );
        }
    }

    #[test]
    fn other_mentions_of_a_room_are_not_reported() {
        for text in [
            "// crate::high",
            "//! See [`crate::high`].",
            "const TEXT: &str = \"crate::high\";",
            "#[cfg(test)]\nuse crate::high;",
            "#[cfg(all(test, unix))]\nmod tests { use crate::high; }\nfn f<A, B>() {}",
            "#[cfg(test)]\nfn f<A, B>() { crate::high::g(); }",
            "#[cfg(test)]\nmod tests;",
            "use super::high;",
            "use crate::low;",
            "use crate::fmt;",
        ] {
            assert_eq!(check_low(text), [""; 0], "{text}");
        }
        assert_eq!(
            check_low("#[cfg(test)]\nuse crate::fmt;\nuse crate::high;").len(),
            1
        );
        assert_eq!(check_low("#[cfg(not(test))]\nuse crate::high;").len(), 1);
    }

    #[test]
    fn a_name_that_is_neither_room_nor_exported_is_reported() {
        for (form, name) in [
            ("use crate::nothing;", "nothing"),
            ("use crate::*;", "*"),
            ("use crate::{low, *};", "*"),
            ("use super::super::*;", "*"),
        ] {
            let expected = format!(
                "sample/src/low/inner.rs:1: room `low` imports `{name}`, whose room is not known"
            );
            assert_eq!(check_low(form), [expected], "{form}");
        }
    }

    #[test]
    fn tables_and_rooms_must_agree() {
        let without = |row: &str, by: &str| Floors::parse(&DOCUMENT.replace(row, by), "sample");
        assert_eq!(
            without("| floor | room | holds |", "| module | holds |")
                .err()
                .unwrap(),
            "sample: its table in ARCHITECTURE.md does not begin with a column `floor`"
        );
        assert_eq!(
            without("| 1 | `low/`", "| ½ | `low/`").err().unwrap(),
            "sample: `½` in ARCHITECTURE.md is not the number of a floor"
        );
        assert_eq!(
            Floors::parse(DOCUMENT, "none").err().unwrap(),
            "none: ARCHITECTURE.md has no section for it"
        );
        assert_eq!(
            without("`low/`", "`wide`")
                .unwrap()
                .rooms()
                .collect::<Vec<_>>(),
            ["high", "wide"]
        );
    }
}
