//! Test of the feature table in `docs/features.md`: every row names an existing test, whose name
//! begins with the number of the row.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Collects the names of all functions in the Rust files of a directory.
fn functions(directory: &Path, names: &mut BTreeSet<String>) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if path.is_dir() && !["target", "node_modules", ".git"].contains(&name) {
            functions(&path, names)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            let heads = text
                .lines()
                .filter_map(|line| line.trim_start().strip_prefix("fn "));
            names.extend(heads.filter_map(|head| Some(head.split_once('(')?.0.to_owned())));
        }
    }
    Ok(())
}

/// The number and the test of each row.
fn rows(table: &str) -> Vec<(String, String)> {
    let cells = table
        .lines()
        .map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let rows = cells.filter(|cells| cells.len() == 6 && cells[4].starts_with('`'));
    rows.map(|cells| (cells[1].to_owned(), cells[4].trim_matches('`').to_owned()))
        .collect()
}

#[test]
fn every_row_of_the_feature_table_has_the_test_that_it_names() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let rows = rows(&fs::read_to_string(root.join("docs/features.md"))?);
    let mut tests = BTreeSet::new();
    functions(&root, &mut tests)?;
    for (row, test) in &rows {
        assert!(
            test.starts_with(&format!("{}_", row.to_lowercase())),
            "{row}: {test} does not begin with its number"
        );
        assert!(tests.contains(test), "{row}: there is no test {test}");
    }
    let wanted = [
        ("P", 15),
        ("A", 5),
        ("L", 2),
        ("T", 10),
        ("C", 13),
        ("X", 24),
        ("S", 3),
    ];
    let wanted = wanted
        .iter()
        .flat_map(|(letter, last)| (1..=*last).map(move |n| format!("{letter}{n}")));
    assert_eq!(
        rows.into_iter().map(|(row, _)| row).collect::<Vec<_>>(),
        wanted.collect::<Vec<_>>()
    );
    Ok(())
}
