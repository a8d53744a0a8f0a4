//! Sets how the library is linked, on Linux with the GNU C library.
//!
//! - Its name (`soname`) has no version, so a program that is linked with it and into which it is
//!   preloaded has it once.
//! - It is never unloaded, because its threads and its signal handler run until the process ends.
//! - It does not need `libgcc_s.so.1`, which slim containers lack: the unwinder of the standard
//!   library comes from the static `libgcc_eh.a`. If the compiler has no such file, the library
//!   needs the shared one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=RUSTC_LINKER");
    let target = |name: &str| env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    if target("OS") != "linux" {
        return;
    }
    link_with("-Wl,-soname,libprofiler_agent.so");
    link_with("-Wl,-z,nodelete");
    link_with("-Wl,-Bsymbolic-functions");
    // Another system's compiler is known only if Cargo is told its linker.
    let is_known = env::var_os("RUSTC_LINKER").is_some() || env::var("TARGET") == env::var("HOST");
    if target("ENV") == "gnu"
        && is_known
        && let Some(directory) = env::var_os("OUT_DIR").map(PathBuf::from)
        && let Some(text) = static_unwinder()
        && fs::write(directory.join("libgcc_s.so"), text).is_ok()
    {
        // Searched before the system's directories, so `-lgcc_s` finds the script there.
        link_with(&format!("-L{}", directory.display()));
    }
}

fn link_with(argument: &str) {
    println!("cargo:rustc-link-arg-cdylib={argument}");
}

/// A linker script that stands for the shared unwinder, and names the static one.
fn static_unwinder() -> Option<String> {
    let unwinder = file_of_compiler("libgcc_eh.a")?;
    let support = file_of_compiler("libgcc.a")?;
    Some(format!(
        "INPUT ( \"{}\" \"{}\" )\n",
        unwinder.display(),
        support.display()
    ))
}

/// The absolute path of a library that belongs to the compiler that links.
fn file_of_compiler(name: &str) -> Option<PathBuf> {
    let linker = env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into());
    let output = Command::new(linker)
        .arg(format!("-print-file-name={name}"))
        .output()
        .ok()?;
    let path = String::from_utf8(output.stdout).ok()?;
    let path = Path::new(path.trim()).to_owned();
    // The compiler repeats the bare name if it has no such file.
    (path.is_absolute() && path.exists()).then_some(path)
}
