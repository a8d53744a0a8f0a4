//! How much a thread has run, as the system's file `schedstat` says.
//!
//! Used for the threads of this process (`tasks`) and of others (`other_process`).

/// How much a thread has run so far. If two values of a thread are equal, it has not run in
/// between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadActivity {
    /// Its processor time in nanoseconds.
    pub cpu_ns: u64,
    /// How long it was ready to run and did not, in nanoseconds; 0 if the system does not count it.
    pub delay_ns: u64,
    /// How often it began to run.
    pub runs: u64,
}

/// Parses processor time, time in the queue, and the number of runs. `None` if they are not
/// counted.
pub(crate) fn parse_schedule(text: &str) -> Option<ThreadActivity> {
    let mut numbers = text.split_ascii_whitespace().map(str::parse);
    let activity = ThreadActivity {
        cpu_ns: numbers.next()?.ok()?,
        delay_ns: numbers.next()?.ok()?,
        runs: numbers.next()?.ok()?,
    };
    (activity.runs > 0).then_some(activity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_the_schedule_are_parsed_and_counts_of_nothing_are_none() {
        let activity = ThreadActivity {
            cpu_ns: 617_184,
            delay_ns: 224_050,
            runs: 3,
        };
        assert_eq!(parse_schedule("617184 224050 3\n"), Some(activity));
        assert_eq!(parse_schedule("0 0 0\n"), None, "not counted");
        for damaged in ["", "1 2", "x 2 3", "1 2 -3", "99999999999999999999999 1 1"] {
            assert_eq!(parse_schedule(damaged), None, "{damaged}");
        }
    }
}
