//! Tests of the libraries in the command: the symbols that `libprofiler_agent.so` exports, and the
//! libraries that it and the preloaded library of `profiler record` need.

use std::collections::BTreeSet;
use std::fs;

use anyhow::Context;
use integration_tests::foreign::Workplace;
use object::read::elf::{Dynamic, ElfFile64};
use object::{Endianness, Object, ObjectSymbol, elf};

/// The names of all functions that the header declares.
fn declared(header: &str) -> BTreeSet<String> {
    let words = header.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let is_function =
        |word: &&str| word.starts_with("mpprof_") && header.contains(&format!("{word}("));
    let is_inline = |word: &&str| header.contains(&format!("static __inline__ int {word}("));
    let is_function = |word: &&str| is_function(word) && !is_inline(word);
    // A macro and a comment mention functions, too, which are declared elsewhere.
    words.filter(is_function).map(str::to_owned).collect()
}

/// The function that only the package for Python calls. The header does not declare it.
const FOR_PYTHON: &str = "mpprof_python_functions";

#[test]
fn the_library_exports_exactly_the_functions_that_the_header_names() -> anyhow::Result<()> {
    let place = Workplace::new()?;
    place.install_agent()?;
    let library = fs::read(place.prefix().join("lib/libprofiler_agent.so"))?;
    let header = fs::read_to_string(place.prefix().join("include/profiler.h"))?;
    let file = ElfFile64::<Endianness>::parse(&*library)?;
    let defined = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition());
    let exported: BTreeSet<String> = defined
        .filter_map(|symbol| symbol.name().ok().map(str::to_owned))
        .collect();
    let mut expected = declared(&header);
    expected.insert(FOR_PYTHON.to_owned());
    assert_eq!(exported, expected);
    Ok(())
}

#[test]
fn the_library_needs_only_the_c_library() -> anyhow::Result<()> {
    const ALLOWED: [&str; 7] = [
        "ld-linux-aarch64.so.1",
        "ld-linux-x86-64.so.2",
        "libc.so.6",
        "libdl.so.2",
        "libm.so.6",
        "libpthread.so.0",
        "librt.so.1",
    ];
    let place = Workplace::new()?;
    place.install_agent()?;
    let library = fs::read(place.prefix().join("lib/libprofiler_agent.so"))?;
    let file = ElfFile64::<Endianness>::parse(&*library)?;
    let dynamic = file.elf_dynamic_table()?;
    let all = |tag| {
        let entries = dynamic.iter().filter(move |entry| entry.tag == tag);
        let text = |entry: Dynamic| {
            let name = dynamic.string(entry).unwrap_or_default();
            String::from_utf8_lossy(name).into_owned()
        };
        entries.map(text).collect::<Vec<_>>()
    };
    let needed = all(elf::DT_NEEDED);
    assert!(
        needed.iter().all(|name| ALLOWED.contains(&name.as_str())),
        "{needed:?}"
    );
    assert_eq!(all(elf::DT_SONAME), ["libprofiler_agent.so"]);
    // DF_1_NODELETE
    let mut flags = dynamic.iter().filter(|entry| entry.tag == elf::DT_FLAGS_1);
    assert!(flags.any(|entry| entry.val & 8 != 0));
    Ok(())
}

/// A program may have any C library, and a sample may interrupt the first access to any
/// thread-local.
#[test]
fn the_preloaded_library_needs_no_library_no_version_and_no_thread_local() -> anyhow::Result<()> {
    let place = Workplace::new()?;
    let script = "grep -o -m 1 '/.*/libprofiler_observed.so' /proc/self/maps";
    let recorded = place.record(&["sh", "-c", script])?;
    let path = String::from_utf8(recorded.output.stdout)?;
    let library = fs::read(path.trim()).with_context(|| format!("the library {path:?}"))?;
    let file = ElfFile64::<Endianness>::parse(&*library)?;
    let dynamic = file.elf_dynamic_table()?;
    let has = |tag| dynamic.iter().any(|entry| entry.tag == tag);
    assert!(!has(elf::DT_NEEDED), "it needs another library");
    assert!(!has(elf::DT_VERNEED), "it needs a version of a library");
    let endian = file.endian();
    let mut segments = file.elf_program_headers().iter();
    let has_thread_local = segments.any(|part| part.p_type.get(endian) == elf::PT_TLS);
    assert!(!has_thread_local, "it has a thread-local");
    let mut symbols = file.dynamic_symbols();
    assert!(!symbols.any(|symbol| symbol.name() == Ok("__tls_get_addr")));
    Ok(())
}
