//! The process that holds a lock on a file, from `/proc/locks`. Used by `resolver`. Pure.
//!
//! ```text
//! 1: FLOCK  ADVISORY  WRITE 1234 08:01:131 0 EOF
//! 1: -> FLOCK  ADVISORY  WRITE 1240 08:01:131 0 EOF        1240 waits for 1234
//! ```

/// The process that holds the lock for which `waiter` waits. `None` if the system does not show it,
/// for example for locks of an open file.
pub(crate) fn holder(locks: &str, waiter: u32) -> Option<u32> {
    let mut held = None;
    for line in locks.lines() {
        let (number, rest) = line.split_once(": ")?;
        let rest = rest.trim_start();
        let waiting = rest.strip_prefix("->");
        let process: Option<u32> = process(waiting.unwrap_or(rest));
        match waiting {
            None => held = Some((number, process)),
            Some(_) if process == Some(waiter) => {
                return held.filter(|(held, _)| *held == number)?.1;
            }
            Some(_) => {}
        }
    }
    None
}

/// The process of a row: the fourth field.
fn process(row: &str) -> Option<u32> {
    row.split_ascii_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LOCKS: &str = "\
1: POSIX  ADVISORY  WRITE 77 08:01:130 0 EOF
2: FLOCK  ADVISORY  WRITE 1234 08:01:131 0 EOF
2: -> FLOCK  ADVISORY  WRITE 1240 08:01:131 0 EOF
2: -> FLOCK  ADVISORY  WRITE 1241 08:01:131 0 EOF
3: OFDLCK ADVISORY  WRITE -1 08:01:132 0 EOF
3: -> OFDLCK ADVISORY  WRITE 1250 08:01:132 0 EOF
";

    #[test]
    fn each_waiting_process_has_the_holder_above_it() {
        assert_eq!(holder(LOCKS, 1240), Some(1234));
        assert_eq!(holder(LOCKS, 1241), Some(1234));
        assert_eq!(
            holder(LOCKS, 1250),
            None,
            "a lock of an open file has no process"
        );
        assert_eq!(holder(LOCKS, 1234), None, "it does not wait");
    }

    proptest! {
        #[test]
        fn any_table_is_accepted(table in "(.*\n){0,8}", waiter: u32) {
            let _ = holder(&table, waiter);
        }
    }
}
