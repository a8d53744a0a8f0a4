//! Sets `cfg(naming_waits)` if a session can find out for whom threads wait: on Linux, on a
//! processor whose stacks the profiler reads. Sets `cfg(observing)` if it can also observe programs
//! that do not call the profiler: with the feature `observed`.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let has = |name: &str| env::var_os(name).is_some();
    let target = |name: &str| env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    let is_supported =
        target("OS") == "linux" && ["x86_64", "aarch64"].contains(&target("ARCH").as_str());
    if !is_supported || has("CARGO_CFG_PROFILER_PORTABLE") {
        return;
    }
    println!("cargo:rustc-cfg=naming_waits");
    if has("CARGO_FEATURE_OBSERVED") {
        println!("cargo:rustc-cfg=observing");
    }
}
