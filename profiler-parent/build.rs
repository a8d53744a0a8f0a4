//! Sets `cfg(observing)` if programs that do not call the profiler can be observed: the feature
//! `observed`, on Linux, on a processor whose stacks the profiler reads.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let has = |name: &str| env::var_os(name).is_some();
    let target = |name: &str| env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    let is_supported =
        target("OS") == "linux" && ["x86_64", "aarch64"].contains(&target("ARCH").as_str());
    if has("CARGO_FEATURE_OBSERVED") && is_supported && !has("CARGO_CFG_PROFILER_PORTABLE") {
        println!("cargo:rustc-cfg=observing");
    }
}
