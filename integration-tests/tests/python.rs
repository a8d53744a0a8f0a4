//! Test of the package for Python: runs the package's own tests, which record real programs.

use std::path::Path;
use std::process::{Command, Stdio};

use integration_tests::foreign::is_installed;
use integration_tests::tools;

/// Fails in a Python that is older than the package supports.
const IS_RECENT: &str = "import sys; sys.exit(sys.version_info < (3, 9))";

/// Whether there is a Python for the package. Says so if there is none.
fn has_python() -> anyhow::Result<bool> {
    if !is_installed("python3") {
        return Ok(false);
    }
    let is_recent = Command::new("python3").args(["-c", IS_RECENT]).status()?;
    if !is_recent.success() {
        eprintln!("left out: python3 is older than 3.9");
    }
    Ok(is_recent.success())
}

#[test]
fn the_package_for_python_passes_its_tests() -> anyhow::Result<()> {
    if !has_python()? {
        return Ok(());
    }
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../integrations/python");
    let mut command = Command::new("python3");
    command.args(["-m", "unittest", "discover", "-s", "tests"]);
    command.current_dir(package).stdin(Stdio::null());
    command.env("PROFILER", tools::profiler()?);
    command.env("XDG_CACHE_HOME", tools::cache()?);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    Ok(())
}
