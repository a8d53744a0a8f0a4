//! Group `symbols`: the cost of names for 100,000 distinct addresses of this program and of the C
//! library.
//!
//! `cold`: no address was looked up before. `warm`: the same lookup again, as a later capture of
//! the same session does it. The peak of memory is that of the cold lookup, minus what the program
//! held before. `vs_addr2line`: the same addresses of this program, looked up by the `addr2line`
//! crate in sections that are already in memory.

use std::borrow::Cow;
use std::path::Path;
use std::time::Instant;

use addr2line::gimli::{Dwarf, DwarfSections, EndianSlice, LittleEndian};
use anyhow::{Context, Result, ensure};
use object::{Object, ObjectSection, SectionKind};
use profiler_symbols::{ModuleKey, SymbolOptions, Symbols, Wanted};

use integration_tests::figure::{Figure, Report};
use integration_tests::measure::{PeakMemory, median};

const ADDRESSES: usize = 100_000;
const RUNS: usize = 5;

/// A file that is mapped by this process, and addresses in its code.
pub(crate) struct Module {
    pub(crate) path: String,
    pub(crate) build_id: Vec<u8>,
    pub(crate) addresses: Vec<u64>,
}

/// All figures of names.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let own = std::env::current_exe()?;
    let libc = libc_path().context("no C library in this process")?;
    let modules = [
        module(&own, ADDRESSES / 2)?,
        module(Path::new(&libc), ADDRESSES / 2)?,
    ];
    let distinct: usize = modules.iter().map(|module| module.addresses.len()).sum();
    let too_few = (distinct < ADDRESSES).then(|| format!("only {distinct} addresses"));
    let mut cold = Vec::new();
    let mut warm = Vec::new();
    let mut peak = 0.0_f64;
    let mut named = 0_usize;
    for _ in 0..RUNS {
        let memory = PeakMemory::begin()?;
        let mut symbols = Symbols::new(SymbolOptions::default());
        cold.push(seconds(|| named = look_up(&mut symbols, &modules)));
        peak = peak.max(memory.growth_mib()?);
        let again = &mut 0;
        warm.push(seconds(|| *again = look_up(&mut symbols, &modules)));
        ensure!(*again == named, "a later capture has other names");
    }
    let put = |report: &mut Report, name: &str, value: f64, unit| {
        report.put(Figure::new(name, value, unit).unless(too_few.clone()));
    };
    put(report, "symbols.cold_s", median(&cold), "s");
    put(report, "symbols.warm_s", median(&warm), "s");
    put(report, "symbols.peak_mib", peak, "MiB");
    put(
        report,
        "symbols.named_pct",
        named as f64 * 100.0 / distinct.max(1) as f64,
        "%",
    );
    let alone =
        |_| seconds(|| _ = std::hint::black_box(look_up(&mut Symbols::default(), &modules[..1])));
    let own_seconds = median(&(0..RUNS).map(alone).collect::<Vec<_>>());
    put(
        report,
        "symbols.vs_addr2line.ratio",
        own_seconds / addr2line_seconds(&own, &modules[0].addresses)?,
        "x addr2line",
    );
    Ok(())
}

/// Looks up all addresses. Returns how many have names.
fn look_up(symbols: &mut Symbols, modules: &[Module]) -> usize {
    let copy =
        |Module {
             path,
             build_id,
             addresses,
         }: &'_ Module| { (path.clone(), build_id.clone(), addresses.clone()) };
    let copies: Vec<_> = modules.iter().map(copy).collect();
    let wanted: Vec<Wanted<'_>> = copies
        .iter()
        .map(|(path, build_id, addresses)| Wanted {
            module: ModuleKey { path, build_id },
            addresses: addresses.clone(),
        })
        .collect();
    let places = symbols.resolve_all(&wanted, &mut |_| {});
    places
        .iter()
        .flatten()
        .filter(|place| place.is_named())
        .count()
}

/// Returns a file with addresses that are spread evenly over its code.
pub(crate) fn module(path: &Path, wanted: usize) -> Result<Module> {
    let bytes = std::fs::read(path)?;
    let file = object::File::parse(&*bytes)?;
    let ranges: Vec<_> = file
        .sections()
        .filter(|section| section.kind() == SectionKind::Text)
        .map(|section| section.address()..section.address() + section.size())
        .collect();
    let code: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    let step = usize::try_from(code)? / wanted.max(1);
    let addresses = ranges
        .into_iter()
        .flatten()
        .step_by(step.max(1))
        .take(wanted)
        .collect();
    let build_id = file.build_id()?.unwrap_or_default().to_vec();
    Ok(Module {
        path: path.to_string_lossy().into_owned(),
        build_id,
        addresses,
    })
}

/// Returns the median of the seconds that `addr2line` needs for the addresses.
fn addr2line_seconds(path: &Path, addresses: &[u64]) -> Result<f64> {
    let bytes = std::fs::read(path)?;
    let file = object::File::parse(&*bytes)?;
    let section = |name: &str| -> object::Result<Vec<u8>> {
        Ok(file
            .section_by_name(name)
            .map_or(Ok(Cow::Borrowed(&[][..])), |section| {
                section.uncompressed_data()
            })?
            .into_owned())
    };
    let sections = DwarfSections::load(|id| section(id.name()))?;
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let mut result = Ok(0);
        times.push(seconds(|| {
            let dwarf: Dwarf<_> =
                sections.borrow(|section| EndianSlice::new(section, LittleEndian));
            result = with_addr2line(dwarf, addresses);
        }));
        ensure!(result? > addresses.len() / 2, "addr2line names too few");
    }
    Ok(median(&times))
}

/// Looks up all addresses with `addr2line`. Returns how many have names.
fn with_addr2line(dwarf: Dwarf<EndianSlice<'_, LittleEndian>>, addresses: &[u64]) -> Result<usize> {
    let context = addr2line::Context::from_dwarf(dwarf)?;
    let mut named = 0;
    for address in addresses {
        let mut frames = context.find_frames(*address).skip_all_loads()?;
        let mut any = false;
        while let Some(frame) = frames.next()? {
            let name = frame
                .function
                .as_ref()
                .map(|name| name.demangle().map(Cow::into_owned))
                .transpose()?;
            any |= name.is_some();
            std::hint::black_box((
                name,
                frame
                    .location
                    .and_then(|location| location.file.map(str::to_owned)),
            ));
        }
        named += usize::from(any);
    }
    Ok(named)
}

fn libc_path() -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let path = maps
        .lines()
        .filter_map(|line| line.split_ascii_whitespace().nth(5));
    path.into_iter()
        .find(|path| path.contains("/libc.so") || path.contains("/libc-"))
        .map(str::to_owned)
}

#[allow(clippy::disallowed_methods)] // a stopwatch
fn seconds(body: impl FnOnce()) -> f64 {
    let start = Instant::now();
    body();
    start.elapsed().as_secs_f64()
}
