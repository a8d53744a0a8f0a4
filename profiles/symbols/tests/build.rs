//! Builds programs with known functions, files and lines, with the C compiler and rustc.
//!
//! Used by all tests of symbols. A mark in the source writes its address into the section `marks`,
//! which stripping keeps. Its line is the one that contains the text `MARK(n)`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSection};
use profiler_symbols::{ModuleKey, Place, SymbolOptions, Symbols};

/// `inner` is inlined into `middle`, and `middle` into `outer`. `plain` has no inlined functions,
/// `hidden` is not exported, and `not_code` is data. With `-DLONG_TEXT`, a text of 4 MiB is in the
/// debug information, which does not refer to it.
pub(crate) const C: &str = r#"
#define MARK(n) __asm__ volatile("1: nop\n.pushsection marks,\"aR\"\n.balign 4\n.long " #n "\n.long 1b - .\n.popsection")
static inline __attribute__((always_inline)) void inner(void) {
    MARK(1);
}
static inline __attribute__((always_inline)) void middle(void) {
    MARK(2);
    inner();
}
__attribute__((noinline)) void outer(void) {
    MARK(3);
    middle();
}
__attribute__((noinline)) void plain(void) {
    MARK(4);
}
static __attribute__((noinline)) void hidden(void) {
    MARK(5);
}
__asm__(".pushsection .data\n.globl not_code\nnot_code: .long 0, 0\n.popsection");
#ifdef LONG_TEXT
__asm__(".pushsection .debug_str,\"MS\",%progbits,1\n.fill 4194304, 1, 97\n.byte 0\n.popsection");
#endif
int main(void) {
    outer();
    plain();
    hidden();
    return 0;
}
"#;

/// A program in Rust with an inlined method and a closure.
pub(crate) const RUST: &str = r#"
struct Engine;
impl Engine {
    #[inline(always)]
    fn turn(&self) {
        unsafe { core::arch::asm!("2: nop\n.pushsection marks,\"aR\"\n.balign 4\n.long 1\n.long 2b - .\n.popsection") }; // MARK(1)
    }
}
#[inline(never)]
fn drive(engine: &Engine) {
    engine.turn();
    unsafe { core::arch::asm!("2: nop\n.pushsection marks,\"aR\"\n.balign 4\n.long 2\n.long 2b - .\n.popsection") }; // MARK(2)
}
fn main() {
    drive(&Engine);
    let each = |_: u32| {
        unsafe { core::arch::asm!("2: nop\n.pushsection marks,\"aR\"\n.balign 4\n.long 3\n.long 2b - .\n.popsection") }; // MARK(3)
    };
    std::iter::once(1).for_each(each);
}
"#;

/// A directory with a program.
pub(crate) struct Built {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) program: PathBuf,
}

/// Runs a tool, and panics if it fails.
pub(crate) fn run(command: &mut Command) {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Builds the C program with `flags`.
pub(crate) fn c(flags: &[&str]) -> Built {
    built("program.c", C, |source, program| {
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-Wl,--build-id"])
            .args(flags)
            .arg("-o")
            .arg(program)
            .arg(source);
        cc.current_dir(source.parent().unwrap());
        cc
    })
}

/// Builds the Rust program with `flags`.
pub(crate) fn rust(flags: &[&str]) -> Built {
    built("program.rs", RUST, |source, program| {
        let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()));
        rustc
            .args(["-Copt-level=1", "-Clink-arg=-Wl,--build-id"])
            .args(flags)
            .arg("-o")
            .arg(program)
            .arg(source);
        rustc
    })
}

fn built(name: &str, text: &str, command: impl Fn(&Path, &Path) -> Command) -> Built {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join(name);
    let program = folder.path().join("program");
    std::fs::write(&source, text).unwrap();
    run(&mut command(&source, &program));
    Built { folder, program }
}

/// The line number of a mark.
pub(crate) fn line(text: &str, mark: u32) -> u32 {
    let found = |line: &str| line.contains(&format!("MARK({mark})"));
    u32::try_from(text.lines().position(found).unwrap()).unwrap() + 1
}

/// The number of the line with this content.
pub(crate) fn line_of(text: &str, content: &str) -> u32 {
    u32::try_from(
        text.lines()
            .position(|line| line.trim() == content)
            .unwrap(),
    )
    .unwrap()
        + 1
}

impl Built {
    pub(crate) fn path(&self) -> &str {
        self.program.to_str().unwrap()
    }

    pub(crate) fn build_id(&self) -> Vec<u8> {
        let bytes = std::fs::read(&self.program).unwrap();
        object::File::parse(&*bytes)
            .unwrap()
            .build_id()
            .unwrap()
            .unwrap_or_default()
            .to_vec()
    }

    /// The addresses of all marks.
    pub(crate) fn marks(&self) -> BTreeMap<u32, u64> {
        let bytes = std::fs::read(&self.program).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let section = file.section_by_name("marks").unwrap();
        let word = |at: &[u8]| i32::from_le_bytes(at.try_into().unwrap());
        let rows = section.data().unwrap().chunks(8).enumerate();
        rows.map(|(row, bytes)| {
            let here = section.address() + 8 * row as u64 + 4;
            (
                word(&bytes[..4]).cast_unsigned(),
                here.wrapping_add_signed(word(&bytes[4..]).into()),
            )
        })
        .collect()
    }

    /// The addresses of all code.
    pub(crate) fn code(&self) -> Vec<u64> {
        let bytes = std::fs::read(&self.program).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let text = file
            .sections()
            .filter(|section| section.kind() == object::SectionKind::Text);
        text.flat_map(|section| section.address()..section.address() + section.size())
            .collect()
    }

    /// Changes the program with `objcopy`.
    pub(crate) fn objcopy(&self, args: &[&str]) {
        run(Command::new("objcopy")
            .args(args)
            .arg(&self.program)
            .current_dir(self.folder.path()));
    }

    /// Resolves the address of a mark.
    pub(crate) fn mark(&self, mark: u32, symbols: &mut Symbols) -> Seen {
        let key = ModuleKey {
            path: self.path(),
            build_id: &self.build_id(),
        };
        seen(&symbols.resolve(key, &[self.marks()[&mark]])[0])
    }

    /// Options that do not use the debug files of the machine.
    pub(crate) fn options(&self) -> SymbolOptions {
        let mut options = SymbolOptions::default();
        options.debug_roots = vec![self.folder.path().join("debug")];
        options
    }

    pub(crate) fn symbols(&self) -> Symbols {
        Symbols::new(self.options())
    }
}

/// The function, file name and line of each frame, innermost first.
pub(crate) type Seen = Vec<(String, String, u32)>;

pub(crate) fn seen(place: &Place) -> Seen {
    let name = |path: &str| path.rsplit('/').next().unwrap().to_owned();
    let text = |text: &Option<std::sync::Arc<str>>| text.as_deref().unwrap_or("").to_owned();
    place
        .frames
        .iter()
        .map(|frame| (text(&frame.function), name(&text(&frame.file)), frame.line))
        .collect()
}
