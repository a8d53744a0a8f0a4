//! The command line of the soak test.

use std::time::Duration;

use anyhow::{Context, bail};

/// The usage line.
pub(crate) const USAGE: &str =
    "usage: soak --hours H --children N --threads T --kill-every MS [--limit BYTES]";

/// The options of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// The duration of the run.
    pub(crate) time: Duration,
    /// Number of children at the same time.
    pub(crate) children: usize,
    /// Number of recording threads per child.
    pub(crate) threads: u32,
    /// Time between two kills.
    pub(crate) kill_every: Duration,
    /// The session's limit.
    pub(crate) limit: u64,
}

impl Options {
    /// Reads the command line.
    ///
    /// # Errors
    /// When an argument is unknown or invalid.
    pub(crate) fn read(words: impl Iterator<Item = String>) -> anyhow::Result<Self> {
        let mut options = Self {
            time: Duration::from_secs(60),
            children: 4,
            threads: 4,
            kill_every: Duration::from_millis(100),
            limit: 16 << 20,
        };
        let mut words = words;
        while let Some(name) = words.next() {
            let value = words
                .next()
                .with_context(|| format!("{name} needs a value"))?;
            match &*name {
                "--hours" => {
                    options.time = Duration::try_from_secs_f64(value.parse::<f64>()? * 3600.0)?
                }
                "--children" => options.children = value.parse()?,
                "--threads" => options.threads = value.parse()?,
                "--kill-every" => options.kill_every = Duration::from_millis(value.parse()?),
                "--limit" => options.limit = value.parse()?,
                _ => bail!("unknown: {name}"),
            }
        }
        let sensible = options.children > 0 && options.threads > 0 && !options.kill_every.is_zero();
        anyhow::ensure!(
            sensible,
            "children, threads and the time between kills are not zero"
        );
        Ok(options)
    }
}
