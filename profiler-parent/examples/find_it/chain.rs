//! Several shops, each in a process of its own, in one session. Called by `main`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use profiler_parent::Session;
use profiler_parent::core::groups::Probes;
use profiler_parent::core::session::Features;

/// Runs this many shops, each of which serves `requests`, and saves the profile of all of them.
pub(crate) fn run(how_many: u16, requests: u64, out: &Path) -> Result<()> {
    let session = Session::builder()
        .name("chain of shops")
        .feature(Features::NATIVE_ALLOCATIONS)
        .start()
        .context("cannot profile")?;
    let _measured = session.monitor(Probes::ALL);
    let shops = (1..=how_many)
        .map(|number| {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["--requests", &requests.to_string()]);
            Ok(session.spawn(&format!("shop {number}"), command)?)
        })
        .collect::<Result<Vec<_>>>()?;
    for mut shop in shops {
        let status = shop.wait()?;
        ensure!(status.success(), "a shop failed: {status}");
    }
    let report = session.capture().save(out)?;
    println!("wrote {} ({} bytes)", report.path.display(), report.bytes);
    Ok(())
}
