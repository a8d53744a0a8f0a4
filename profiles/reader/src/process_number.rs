//! The numbers of processes in a profile.
//!
//! Used by the exports and by `profiler info`. A profile tells processes apart by texts such as
//! `12`, `12.1` for the second program of process 12, and `HOST:12` in a merged profile. Its logs
//! have the host and the system's number.

use super::logs::GatheredProcess;

/// The system's number in a process number of the profile: 12 for `12`, `12.1` and `HOST:12`.
/// `None` if the text has none.
pub fn system_pid(pid: &str) -> Option<u64> {
    let number = pid.rsplit(':').next()?;
    number.split('.').next()?.parse().ok()
}

impl GatheredProcess {
    /// The number that the profile gives the threads of this process's first program.
    pub fn pid_in_profile(&self) -> String {
        match &self.host {
            Some(host) => format!("{host}:{}", self.pid),
            None => self.pid.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_number_is_after_the_host_and_before_the_program() {
        for (pid, number) in [
            ("12", Some(12)),
            ("12.1", Some(12)),
            ("db.example:12.3", Some(12)),
            ("a:b:7", Some(7)),
            ("", None),
            ("web", None),
            ("web:", None),
        ] {
            assert_eq!(system_pid(pid), number, "{pid}");
        }
    }
}
