//! Simulates a fleet: many hosts that push recorded batches to two ClickHouse servers.
//!
//! ```text
//! fleet_hosts --hosts 1000 --period 10 --seconds 120 PROFILE...
//! ```
//!
//! Every host is a process of this program. In each period it takes the next of the profiles, moves
//! it to the present, gives it its own host name, and sends it with the code of the pusher
//! ([`push_files`](profiler_push::push_files)): encoded, compressed, retried. The hosts
//! begin at different times within the first period. The servers and the hosts share this machine.
//!
//! At the end, the program compares what the store has with what was sent, prints a table, and
//! fails if a sample is missing or is there twice. `docs/scale.md` has such tables. The servers are
//! those of [`integration_tests::clickhouse`].

mod batch;
mod fleet;
mod host;
mod store;
mod usage;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

const USAGE: &str = "usage: fleet_hosts [--hosts N] [--period S] [--seconds S] PROFILE...";

/// How large the fleet is, and what it sends.
#[derive(Debug)]
struct FleetPlan {
    hosts: usize,
    period: Duration,
    duration: Duration,
    profiles: Vec<PathBuf>,
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("host") => host::run(arguments.get(1..).unwrap_or_default()),
        Some("--help" | "-h") => {
            println!("{USAGE}");
            Ok(())
        }
        _ => fleet::run(&plan(arguments)?),
    }
}

fn plan(arguments: Vec<String>) -> Result<FleetPlan> {
    let mut plan = FleetPlan {
        hosts: 1000,
        period: Duration::from_secs(10),
        duration: Duration::from_secs(120),
        profiles: Vec::new(),
    };
    let mut rest = arguments.into_iter();
    while let Some(word) = rest.next() {
        let mut number = || -> Result<u64> {
            let text = rest
                .next()
                .with_context(|| format!("{word} needs a number"))?;
            text.parse().with_context(|| format!("{word} {text}"))
        };
        match word.as_str() {
            "--hosts" => plan.hosts = usize::try_from(number()?)?,
            "--period" => plan.period = Duration::from_secs(number()?),
            "--seconds" => plan.duration = Duration::from_secs(number()?),
            option if option.starts_with('-') => bail!("{USAGE}"),
            _ => plan.profiles.push(PathBuf::from(word)),
        }
    }
    ensure!(!plan.profiles.is_empty(), "{USAGE}");
    ensure!(plan.hosts > 0 && !plan.period.is_zero(), "{USAGE}");
    Ok(plan)
}
