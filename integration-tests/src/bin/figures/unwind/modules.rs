//! What unwinding needs of the files that this process runs, read from the files themselves.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use framehop::{ExplicitModuleSectionInfo, Module, MustNotAllocateDuringUnwind, Unwinder, UnwinderNative};
use object::{Object, ObjectSection, ObjectSegment};

pub(super) type Tables = UnwinderNative<Arc<[u8]>, MustNotAllocateDuringUnwind>;

/// All files with code, as they are loaded now.
pub(super) fn all() -> Result<Tables> {
    let mut tables = Tables::new();
    let mut known = 0;
    for (path, start) in loaded()? {
        if let Some(module) = module(&path, start)? {
            tables.add_module(module);
            known += 1;
        }
    }
    ensure!(known > 1, "the program's own file is not found");
    Ok(tables)
}

/// Every file with code, and where its first byte is.
fn loaded() -> Result<BTreeMap<String, u64>> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let (mut first, mut with_code) = (BTreeMap::new(), BTreeMap::new());
    for line in maps.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [range, rights, offset, _, _, path] = words[..] else { continue };
        let start = u64::from_str_radix(range.split('-').next().unwrap_or_default(), 16)?;
        if offset.bytes().all(|digit| digit == b'0') {
            first.insert(path.to_owned(), start);
        }
        if rights.contains('x')
            && let Some(start) = first.get(path)
        {
            with_code.insert(path.to_owned(), *start);
        }
    }
    Ok(with_code)
}

fn module(path: &str, start: u64) -> Result<Option<Module<Arc<[u8]>>>> {
    let Ok(bytes) = std::fs::read(path) else { return Ok(None) };
    let file = object::File::parse(&*bytes)?;
    let section = |name: &str| -> Result<_> {
        let section = file.section_by_name(name).with_context(|| format!("{path} has no {name}"))?;
        let addresses = section.address()..section.address() + section.size();
        Ok((addresses, Arc::<[u8]>::from(section.data()?)))
    };
    let (index, frames) = (section(".eh_frame_hdr")?, section(".eh_frame")?);
    let lowest = file.segments().map(|segment| segment.address()).min().context("no segments")? & !0xfff;
    let highest = file.segments().map(|segment| segment.address() + segment.size()).max().unwrap_or(lowest);
    let sections = ExplicitModuleSectionInfo {
        base_svma: lowest,
        eh_frame_hdr_svma: Some(index.0),
        eh_frame_hdr: Some(index.1),
        eh_frame_svma: Some(frames.0),
        eh_frame: Some(frames.1),
        ..Default::default()
    };
    let range = start..start + (highest - lowest);
    Ok(Some(Module::new(path.to_owned(), range, start, sections)))
}
