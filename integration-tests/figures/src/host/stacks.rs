//! The smallest stack on which each kind of entry is recorded.
//!
//! For each kind and size, a process has hundreds of threads with stacks of that size. Each thread
//! records some entries, including the first of its life, while it is sampled at 1 kHz. An overflow
//! ends the process. The sizes start with the smallest that the C library makes.

use anyhow::{Context, Result, ensure};
use integration_tests::small_stacks::{Kind, fixture};

use crate::roles::role;
use integration_tests::figure::{Figure, Promise, Report};

const SIZES_KIB: [u32; 7] = [16, 20, 24, 32, 48, 64, 128];
const KINDS: [Kind; 6] = [
    Kind::Marker,
    Kind::Typed,
    Kind::Stack,
    Kind::Allocation,
    Kind::Label,
    Kind::Group,
];
const THREADS: usize = 256;
const TIMES: u32 = 20;
const PROMISE: Promise = Promise::AtMost(16.0);

/// The name of the role that [`record`] plays.
pub(super) const ROLE: &str = "small-stacks";

/// Records on threads with small stacks: `KIND BYTES`.
pub(super) fn record(words: &[String]) -> Result<()> {
    let [kind, bytes] = words else {
        anyhow::bail!("which kind, on how many bytes?")
    };
    let kind = Kind::of_name(kind).context("no such kind")?;
    fixture::play(kind, bytes.parse()?, THREADS, TIMES).map(drop)
}

pub(super) fn measure(report: &mut Report) -> Result<()> {
    for kind in KINDS {
        let found = smallest(kind)?;
        let none = found
            .is_none()
            .then(|| "none of the sizes is enough".to_owned());
        let kib = found.map_or(f64::NAN, f64::from);
        let name = format!("host.min_stack_kib.{}", kind.name());
        report.put(Figure::new(name, kib, "KiB").promised(PROMISE).unless(none));
    }
    Ok(())
}

/// Returns the smallest size on which a kind works, in KiB.
fn smallest(kind: Kind) -> Result<Option<u32>> {
    for kib in SIZES_KIB {
        if works(kind, kib)? {
            return Ok(Some(kib));
        }
    }
    Ok(None)
}

/// Returns whether a process survives that records this kind on stacks of this size.
fn works(kind: Kind, kib: u32) -> Result<bool> {
    let mut command = role(ROLE)?;
    let output = command
        .args([kind.name(), &(kib * 1024).to_string()])
        .output()?;
    let complained = String::from_utf8_lossy(&output.stderr);
    // An overflow ends the process by a signal. For any other failure the process exits with a
    // code.
    ensure!(
        output.status.code().is_none_or(|code| code == 0),
        "{}: {complained}",
        kind.name()
    );
    Ok(output.status.success())
}
