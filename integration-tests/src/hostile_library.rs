//! A shared library with a function whose name exhausts the stack of a demangler.
//!
//! Tests and figures build it with the system's C compiler. The command `visit` of the helper
//! process loads it and records while functions of the library are on the stack.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::ensure;

/// The beginning of the hostile name. A profile that names the function contains it.
pub const BEGINNING: &str = "_Z1fILi0EEvDTcvicvi";

/// The hostile name: `cpp_demangle` needs more than 256 KiB of stack for it.
pub fn hostile_name() -> String {
    format!("_Z1fILi0EEvDT{}fp_E", "cvi".repeat(90))
}

/// Builds the library in `directory`.
///
/// # Errors
/// When there is no C compiler, or it fails.
pub fn build(directory: &Path) -> anyhow::Result<PathBuf> {
    let source = directory.join("hostile.c");
    let library = directory.join("libhostile.so");
    let text = format!(
        "void inner(void (*back)(void)) __asm__(\"{}\");\n\
         __attribute__((noinline)) void inner(void (*back)(void)) {{ back(); __asm__ volatile(\"\"); }}\n\
         void visit(void (*back)(void)) {{ inner(back); __asm__ volatile(\"\"); }}\n",
        hostile_name()
    );
    std::fs::write(&source, text)?;
    let mut compiler = Command::new("cc");
    compiler.args([
        "-shared",
        "-fPIC",
        "-O1",
        "-fno-omit-frame-pointer",
        "-fasynchronous-unwind-tables",
    ]);
    let output = compiler
        .args(["-Wl,--build-id", "-o"])
        .arg(&library)
        .arg(&source)
        .output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(library)
}
