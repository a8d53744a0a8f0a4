//! `profiler diff --html FILE`: the difference as a flame graph, in one file that needs no network.
//!
//! ```text
//! runs ─▶ tree (merges the call trees, leaves out small parts) ─▶ data (JSON) ─▶ page/
//! ```
//!
//! Called by [`super::run()`]. A profile cannot contain this picture: the Firefox Profiler shows a
//! comparison only as a call tree, its flame graph draws differences without their signs, and its
//! colours are those of categories.
//!
//! Invariants: the file has a bounded size ([`tree::MAX_NODES`]) and says how much is left out; it
//! loads nothing, and forbids the browser to load anything; names are foreign text, which reaches
//! the page only as JSON that contains no `<`.

mod data;
mod tree;

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use profiler_files::output::ProfileFile;

use super::changes::{Comparison, Sides};
use super::run::Run;
use data::PageData;

/// The page, with comments where its parts go.
const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
/// The drawing of a flame graph, and its use on this page.
const SCRIPTS: [&str; 2] = [include_str!("page/flame.js"), include_str!("page/page.js")];

/// Writes the flame graph of a comparison of these runs. The file appears when it is complete.
pub(super) fn write(path: &Path, comparison: &Comparison, runs: Sides<&[Run]>) -> Result<()> {
    let data = PageData::of(comparison, runs);
    let mut file = ProfileFile::create(path)?;
    let written = write_page(&data, &mut file);
    written.with_context(|| format!("cannot write {}", path.display()))?;
    file.commit()?;
    Ok(())
}

fn write_page(data: &PageData<'_>, out: &mut impl Write) -> std::io::Result<()> {
    let mut rest = PAGE;
    for part in ["style", "data", "script"] {
        let mark = format!("<!-- {part} -->\n");
        let (before, after) = rest.split_once(&mark).unwrap_or((rest, ""));
        out.write_all(before.as_bytes())?;
        match part {
            "style" => out.write_all(STYLE.as_bytes())?,
            "data" => write_data(data, out)?,
            _ => SCRIPTS
                .iter()
                .try_for_each(|script| out.write_all(script.as_bytes()))?,
        }
        rest = after;
    }
    out.write_all(rest.as_bytes())
}

/// Writes JSON that ends no element of HTML and begins no comment of it.
fn write_data(data: &PageData<'_>, out: &mut impl Write) -> std::io::Result<()> {
    let json = serde_json::to_string(data)?;
    writeln!(out, "{}", json.replace('<', r"\u003c"))
}

#[cfg(test)]
mod tests;
