//! Test of the layers of every crate. A crate's README.md has a section `## Modules` with a table:
//! each top-level module of the crate has the number of a layer. A module imports only from modules
//! in lower layers.
//!
//! The tables are the only data; this file has no list of modules. `members` finds the crates,
//! `table` reads their tables, and `sources` reads the modules of a crate and collects the paths
//! that begin at its root. Code for tests (`#[cfg(test)]`) may import from any layer.

use std::path::Path;

#[path = "layers/members.rs"]
mod members;
#[path = "layers/sources.rs"]
mod sources;
#[path = "layers/table.rs"]
mod table;
#[path = "layers/tokens.rs"]
mod tokens;

use members::members;
use sources::{Import, Sources, Target};
use table::Layers;

/// A crate with more top-level modules than this needs a table.
const MAX_WITHOUT_TABLE: usize = 3;

/// Crates that need no table, however many modules they have. If they have one, it is checked.
const EXCEPTIONS: [&str; 3] = [
    // Tools of the tests, one per subject, which applications do not use.
    "integration-tests",
    "integration-tests/support",
    // One module for each group of figures.
    "integration-tests/figures",
];

#[test]
fn every_module_imports_only_from_lower_layers() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let found: Vec<String> = members(workspace)
        .iter()
        .flat_map(|name| check(workspace, name))
        .collect();
    assert!(
        found.is_empty(),
        "the code and the tables of modules differ:\n{}",
        found.join("\n")
    );
}

/// The differences between a crate and its table, one line each.
fn check(workspace: &Path, name: &str) -> Vec<String> {
    let Some(sources) = Sources::read(workspace, name) else {
        return Vec::new();
    };
    let readme = std::fs::read_to_string(workspace.join(name).join("README.md"));
    let layers = Layers::parse(&readme.unwrap_or_default());
    let problems = match &layers {
        Ok(Some(layers)) => wrong_rows(layers, &sources),
        Ok(None) if sources.modules.len() > MAX_WITHOUT_TABLE && !EXCEPTIONS.contains(&name) => {
            vec!["there is no section `## Modules`".to_owned()]
        }
        Ok(None) => Vec::new(),
        Err(problem) => vec![problem.clone()],
    };
    let problems = problems
        .iter()
        .map(|problem| format!("{name}/README.md: {problem}"));
    let layers = layers.ok().flatten();
    let upward = layers.iter().flat_map(|layers| {
        let imports = sources.imports.iter();
        imports.filter_map(|import| upward(layers, &sources, import))
    });
    problems.chain(upward).collect()
}

/// The modules without a row and the rows without a module, one line each.
fn wrong_rows(layers: &Layers, sources: &Sources) -> Vec<String> {
    let without_row = sources
        .modules
        .iter()
        .filter(|module| layers.of(module).is_none())
        .map(|module| format!("there is no row for module `{module}`"));
    let without_module = layers
        .modules()
        .filter(|module| !sources.modules.contains(*module))
        .map(|module| format!("there is a row for `{module}`, which is no module"));
    without_row.chain(without_module).collect()
}

/// The line for an import that does not lead to a lower layer.
fn upward(layers: &Layers, sources: &Sources, import: &Import) -> Option<String> {
    let Import {
        file,
        line,
        module,
        name,
        ..
    } = import;
    let target = match sources.target(import) {
        Target::Module(target) => target,
        Target::Outside => return None,
        Target::Unknown => {
            return Some(format!(
                "{file}:{line}: module `{module}` imports `{name}`, whose module is not known"
            ));
        }
    };
    let from = layers.of(module)?;
    let to = layers.of(target)?;
    (target != module && to >= from).then(|| {
        format!(
            "{file}:{line}: module `{module}` (layer {from}) imports from module `{target}` \
             (layer {to}), which is not below it"
        )
    })
}

mod tests {
    use super::*;

    const README: &str = "# Sample\n\nText.\n\n## Modules\n\n\
        | layer | module | holds |\n|---|---|---|\n\
        | 1 | `low/` (`inner`) | the lower one |\n| 2 | `high` | the upper one |\n\n## other\n";

    /// A workspace with one crate of two modules. The file `low/inner.rs` contains the text `low`,
    /// and the root file is `root`.
    fn workspace(root: &str, readme: &str, low: &str) -> tempfile::TempDir {
        let workspace = tempfile::tempdir().unwrap();
        let sample = workspace.path().join("sample");
        std::fs::create_dir_all(sample.join("src/low")).unwrap();
        for (file, text) in [
            ("README.md", readme),
            (
                root,
                "mod high;\nmod low;\npub use high::Thing as Alias;\npub use std::fmt;\n",
            ),
            (
                "src/high.rs",
                "use crate::low;\n#[macro_export]\nmacro_rules! high { () => { $crate::low::f() }; }\n",
            ),
            ("src/low/mod.rs", "mod inner;\n"),
            ("src/low/inner.rs", low),
        ] {
            std::fs::write(sample.join(file), text).unwrap();
        }
        workspace
    }

    /// Checks the crate of a [`workspace`]. The result is the same for a library and a program.
    fn check_low(low: &str) -> Vec<String> {
        let [library, program] = ["src/lib.rs", "src/main.rs"]
            .map(|root| check(workspace(root, README, low).path(), "sample"));
        assert_eq!(library, program);
        library
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
            let expected = "sample/src/low/inner.rs:2: module `low` (layer 1) \
                            imports from module `high` (layer 2), which is not below it";
            assert_eq!(
                check_low(&format!("//! Inner.\n{form}\n")),
                [expected],
                "{form}"
            );
        }
    }

    #[test]
    fn other_mentions_of_a_module_are_not_reported() {
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
    fn a_name_that_is_neither_a_module_nor_exported_is_reported() {
        for (form, name) in [
            ("use crate::nothing;", "nothing"),
            ("use crate::*;", "*"),
            ("use crate::{low, *};", "*"),
            ("use super::super::*;", "*"),
        ] {
            let expected = format!(
                "sample/src/low/inner.rs:1: module `low` imports `{name}`, whose \
                 module is not known"
            );
            assert_eq!(check_low(form), [expected], "{form}");
        }
    }

    #[test]
    fn tables_and_modules_must_agree() {
        for (row, by, expected) in [
            ("", "", &[][..]),
            (
                "| layer | module | holds |",
                "| module | holds |",
                &["the table of modules does not begin with a column `layer`"],
            ),
            (
                "| 1 | `low/`",
                "| ½ | `low/`",
                &["`½` is not the number of a layer"],
            ),
            (
                "| 1 | `low/`",
                "| 1 | `high`",
                &["module `high` has two rows"],
            ),
            (
                "`low/`",
                "`wide`",
                &[
                    "there is no row for module `low`",
                    "there is a row for `wide`, which is no module",
                ],
            ),
        ] {
            let workspace = workspace("src/lib.rs", &README.replacen(row, by, 1), "");
            let expected: Vec<String> = expected
                .iter()
                .map(|line| format!("sample/README.md: {line}"))
                .collect();
            assert_eq!(check(workspace.path(), "sample"), expected, "{by}");
        }
    }

    #[test]
    fn a_crate_with_more_than_three_modules_needs_a_table() {
        for (modules, expected) in [
            ("mod a {}\nmod b {}\nmod c {}\n", &[][..]),
            (
                "mod a {}\nmod b {}\nmod c {}\nmod d {}\n",
                &["sample/README.md: there is no section `## Modules`"],
            ),
        ] {
            let workspace = workspace("src/lib.rs", "# Sample\n", "");
            let root = workspace.path().join("sample/src/lib.rs");
            std::fs::write(&root, modules).unwrap();
            assert_eq!(check(workspace.path(), "sample"), expected, "{modules}");
        }
    }

    #[test]
    fn the_members_of_the_workspace_are_found() {
        let workspace = workspace("src/lib.rs", "", "");
        std::fs::write(workspace.path().join("sample/src/Cargo.toml"), "").unwrap();
        for (list, expected) in [
            (r#"["sample", "sample/src"]"#, &["sample", "sample/src"][..]),
            ("[\n    \"sample\",\n]", &["sample"]),
            (r#"["sample/*"]"#, &["sample/src"]),
        ] {
            let manifest = format!("[workspace]\nmembers = {list}\nexclude = [\"fuzz\"]\n");
            std::fs::write(workspace.path().join("Cargo.toml"), manifest).unwrap();
            assert_eq!(members(workspace.path()), expected, "{list}");
        }
    }
}
