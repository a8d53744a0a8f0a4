//! A process that becomes another program while it is sampled, again and again: `storms reexec SECONDS`.
//!
//! What is on its way to the process at that instant comes to the new program, which has no handler for it. The new
//! program is this one, so that it happens hundreds of times; how often is its third argument.

use std::hint::black_box;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use profiler_core::session;

/// So often for every second that a storm is to take.
const ROUNDS_A_SECOND: u64 = 60;

/// Goes on where the program before this one left off; does not return before the last round.
pub(crate) fn reexec(seconds: u64, done: u64) -> Result<()> {
    if done >= seconds * ROUNDS_A_SECOND {
        // What the last one left behind has come by now.
        session::wait_one_periodic_sampling();
        println!("ok {done} programs after the first");
        return Ok(());
    }
    let next = || -> Result<()> {
        let mut command = Command::new(std::env::current_exe().context("no executable")?);
        command.args(["reexec", &seconds.to_string(), &(done + 1).to_string()]);
        compute(Duration::from_millis(3));
        let error = command.exec();
        bail!("no other program: {error}")
    };
    std::thread::scope(|scope| {
        // All others end with the old program, in the middle of something.
        scope.spawn(|| compute(Duration::from_secs(60)));
        // The main thread and others go different ways through the system.
        if done.is_multiple_of(2) {
            next()
        } else {
            scope.spawn(next).join().unwrap_or_else(|_| bail!("panicked"))
        }
    })
}

fn compute(time: Duration) {
    let ends = Instant::now() + time;
    while Instant::now() < ends {
        (0..1000_u64).for_each(|number| _ = black_box(number));
    }
}
