//! `profiler push FILE… --to ADDRESS`: sends profiles, or the batches in a spool, to engines.
//!
//! `options` has the options that it shares with `profiler record`; `pushed_before` finds profiles
//! that were partly pushed during the recording.

mod options;
mod pushed_before;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use profiler_parent::push::{
    DestinationReport, OtherDestinations, PushReport, push_files, push_spool,
};
use profiler_parent::view::check;

use crate::plain::plain;
use crate::record::units;
use crate::report::{say, tell};
use options::IdentityArgs;
pub(crate) use options::RecordPushArgs;
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

/// Says what stays in a spool and does not belong to a destination.
fn tell_left(report: &PushReport) {
    let PushReport {
        used_directories,
        unreadable_directories,
        kept_batches,
        ..
    } = report;
    if *kept_batches > 0 {
        tell(&format!(
            "profiler: {kept_batches} batches stay in the spool for other engines of the recording \
             (--replace removes such batches)"
        ));
    }
    if *used_directories > 0 {
        tell(&format!(
            "profiler: {used_directories} directories of the spool are in use"
        ));
    }
    if *unreadable_directories > 0 {
        tell(&format!(
            "profiler: {unreadable_directories} directories of the spool cannot be read, or are those of \
             an earlier version"
        ));
    }
}

/// Says on standard error what was pushed.
fn tell_report(report: &PushReport) {
    for destination in &report.destinations {
        tell(&format!("profiler: {}", sentence(destination)));
    }
    if report.missed_entries > 0 {
        let missed = report.missed_entries;
        tell(&format!(
            "profiler: {missed} entries were evicted before they could be pushed"
        ));
    }
    if let Some(error) = &report.capture_error {
        let failed = report.failed_captures;
        tell(&format!(
            "profiler: {failed} batches could not be written: {}",
            plain(error)
        ));
    }
}

/// Whether the spool has no batches for the destinations.
fn is_empty(report: &PushReport) -> bool {
    let mut destinations = report.destinations.iter();
    report.used_directories + report.kept_batches == 0
        && is_complete(report)
        && destinations.all(|destination| destination.sent.batches == 0)
}

fn is_complete(report: &PushReport) -> bool {
    let mut destinations = report.destinations.iter();
    report.unreadable_directories == 0
        && destinations.all(|destination| {
            let left_out = destination.lost.batches + destination.rejected.batches;
            left_out + destination.waiting_batches == 0
        })
}

/// What a destination has got, in a sentence.
fn sentence(destination: &DestinationReport) -> String {
    let DestinationReport {
        address,
        sent,
        lost,
        rejected,
        waiting_batches,
        requests,
        sent_bytes,
        error,
        without_profiles,
        ..
    } = destination;
    let number = |count: u64, one: &str, more: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {more}"),
    };
    let mut parts = vec![format!(
        "pushed {} in {} ({sent_bytes} bytes) to {address}",
        number(sent.batches, "batch", "batches"),
        number(*requests, "request", "requests"),
    )];
    let counts = [
        (rejected.batches, "refused"),
        (lost.batches, "lost: the spool was full"),
        (*waiting_batches, "not sent"),
    ];
    for (batches, what) in counts {
        if batches > 0 {
            parts.push(format!("{batches} {what}"));
        }
    }
    match error {
        Some(error) if parts.len() > 1 => parts.push(plain(error)),
        None if *waiting_batches > 0 && *requests == 0 => {
            parts.push("no request had an answer".to_owned());
        }
        _ => {}
    }
    if let Some(why) = without_profiles {
        parts.push(format!("it does not take profiles ({})", plain(why)));
    }
    parts.join("; ")
}
