//! `profiler push FILE… --to ADDRESS`: sends profiles, or the batches in a spool, to engines.
//!
//! `options` has the options that it shares with `profiler record`; `outcome` says what was pushed;
//! `pushed_before` finds profiles that were partly pushed during the recording.

mod options;
mod outcome;
mod pushed_before;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use profiler_push::{OtherDestinations, push_files, push_spool};
use profiler_view::check;

use crate::console::{say, tell};
use crate::units;
use options::IdentityArgs;
pub(crate) use options::RecordPushArgs;
use outcome::{is_complete, is_empty, sentence, tell_left};
use pushed_before::refuse_second_push;

/// Sends profiles to engines that store and show them: OpenTelemetry collectors, Pyroscope, Parca,
/// ClickHouse
///
/// Each profile is divided into requests, which are compressed and repeated until the engine
/// accepts or refuses them. A request has the same Idempotency-Key whenever the same profile is
/// pushed. Exit code 1 if a part was refused or not sent in time.
#[derive(Debug, Args)]
pub(crate) struct PushArgs {
    /// The profiles, in either format, compressed or not
    #[arg(required_unless_present = "spool", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Sends the batches that `profiler record --push-spool DIR` or an application has left in this
    /// directory, instead of files
    #[arg(long, value_name = "DIR", conflicts_with_all = ["files", "again"])]
    spool: Option<PathBuf>,
    /// With --spool: removes a batch once these engines have it, although other engines of the
    /// recording lack it
    #[arg(long, requires = "spool")]
    replace: bool,
    /// Sends a file even if an engine has received a part of it during the recording; this engine
    /// then has the entries of this part twice
    #[arg(long)]
    again: bool,
    /// The engines: otlp+http://HOST:PORT, pyroscope+http://…, parca+http://…, or
    /// clickhouse+http://HOST:PORT/DATABASE; may be repeated
    #[arg(long, required = true, value_name = "ADDRESS")]
    to: Vec<String>,
    #[command(flatten)]
    identity: IdentityArgs,
    /// The longest time for sending all files or batches, in seconds
    #[arg(long, value_name = "S", default_value = "60", value_parser = units::seconds)]
    timeout: Duration,
}

/// Refuses a file that is not a profile before anything is sent.
fn check_file(path: &Path) -> Result<()> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    check(&file).with_context(|| format!("{} is not a profile", path.display()))?;
    Ok(())
}

/// Pushes files or batches. Returns whether everything was accepted.
pub(crate) fn run(options: &PushArgs) -> Result<bool> {
    let PushArgs {
        files,
        to,
        timeout,
        again,
        ..
    } = options;
    let Some(push) = options.identity.options(to)? else {
        bail!("no address");
    };
    let report = match &options.spool {
        Some(_) if options.identity.has_labels() => {
            bail!(
                "the batches in a spool have the service, the version and the host of their recording"
            )
        }
        Some(spool) => {
            let others = match options.replace {
                true => OtherDestinations::Replace,
                false => OtherDestinations::Keep,
            };
            push_spool(spool, &push, *timeout, others)?
        }
        None => {
            files.iter().try_for_each(|file| check_file(file))?;
            if !again {
                refuse_second_push(files, to)?;
            }
            push_files(files, &push, *timeout)?
        }
    };
    for destination in &report.destinations {
        say(&sentence(destination));
    }
    tell_left(&report);
    if options.spool.is_some() && !options.replace && is_empty(&report) {
        tell("profiler: the spool has no batches for these addresses");
    }
    Ok(is_complete(&report))
}
