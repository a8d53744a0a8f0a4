//! Compiles the library in `preload/`.
//!
//! Cargo cannot: the library has no standard library and must not unwind, and a package cannot
//! choose what happens at a panic. So the compiler that Cargo uses is called here, for the same
//! target and with the same linker. For a target without a working linker the library is empty, as
//! in `cargo check --target`, and the command says that it does not contain it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// No symbol is bound while the program runs: the handler calls functions of the C library. Without
/// memory that becomes read-only after the start, the loader creates two fewer mappings.
const LINK: [&str; 5] = [
    "-nostdlib",
    "-Wl,-z,now",
    "-Wl,-z,norelro",
    "-Wl,-z,nodelete",
    "-Wl,-soname,libprofiler_observed.so",
];

/// Code and constants are one mapping. Not all linkers know this option.
const ONE_MAPPING: &str = "-Wl,--no-rosegment";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=preload");
    println!("cargo:rerun-if-changed=src/layout.rs");
    println!("cargo:rerun-if-env-changed=RUSTC_LINKER");
    let out = PathBuf::from(variable("OUT_DIR")).join("libprofiler_observed.so");
    let is_supported = variable("CARGO_CFG_TARGET_OS") == "linux"
        && ["x86_64", "aarch64"].contains(&variable("CARGO_CFG_TARGET_ARCH").as_str());
    let target = variable("TARGET");
    let compiles = || compile(&target, &out, &[ONE_MAPPING]) || compile(&target, &out, &[]);
    if is_supported && compiles() {
        return;
    }
    assert!(
        !is_supported || target != variable("HOST"),
        "the library in preload/ does not compile"
    );
    fs::write(&out, []).expect("the build directory is writable");
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

fn compile(target: &str, out: &Path, more: &[&str]) -> bool {
    let mut compiler = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    compiler
        .args(["--crate-name", "profiler_observed_preload"])
        .args(["--crate-type", "cdylib", "--edition", "2024"])
        .args(["--target", target, "-o"])
        .arg(out)
        .args([
            "-C",
            "panic=abort",
            "-C",
            "opt-level=2",
            "-C",
            "strip=symbols",
        ])
        .args([
            "-C",
            "codegen-units=1",
            "-C",
            "lto=fat",
            "-C",
            "overflow-checks=off",
        ])
        // A target with musl makes static programs, and no libraries, unless it is told to.
        .args(["-C", "target-feature=-crt-static"])
        .arg("preload/lib.rs");
    for argument in LINK.iter().chain(more) {
        compiler.args(["-C", &format!("link-arg={argument}")]);
    }
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        compiler
            .arg("-C")
            .arg(format!("linker={}", linker.display()));
    }
    compiler.status().is_ok_and(|status| status.success()) && out.is_file()
}
