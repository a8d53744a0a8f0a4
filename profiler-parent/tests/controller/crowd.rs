//! Test of ten thousand processes: an event causes few commands and messages.

use super::simulation::{MIB, crowd};
use super::steady::check;

#[test]
fn ten_thousand_processes_do_not_cascade() {
    let outcome = check("crowd", crowd(), 0.35, 0.8);
    let chunks_per_mib = MIB as f64 / 4096.0;
    assert!(
        outcome.messages_per_mib() < 4.0 * chunks_per_mib,
        "{}",
        outcome.messages_per_mib()
    );
    assert!(
        outcome.most_commands <= 2 * 8,
        "{} commands for one event",
        outcome.most_commands
    );
}
