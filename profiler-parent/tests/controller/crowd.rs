//! Ten thousand processes: what an event costs, and that nothing cascades.

use profiler_parent::controller::Policy;

use super::simulation::{MIB, MS, Scenario, check, fitting};

/// Ten thousand processes of which one in ten is busy, one in a hundred very busy.
fn rates() -> Vec<u64> {
    let rate = |index| match index % 100 {
        0 => MIB,
        1..10 => 64 * 1024,
        _ => 2 * 1024,
    };
    (0..10_000).map(rate).collect()
}

#[test]
fn ten_thousand_processes_do_not_cascade() {
    let scenario = Scenario {
        limit: 512 * MIB,
        rates: rates(),
        chunk: fitting,
        seconds: 10,
        bursts: false,
        starts_within: 1_000 * MS,
        policy: Policy::new(3 * 4096, 4096),
    };
    let outcome = check("crowd", scenario, 0.35, 0.8);
    let chunks_per_mib = MIB as f64 / 4096.0;
    assert!(outcome.messages_per_mib() < 4.0 * chunks_per_mib, "{}", outcome.messages_per_mib());
    assert!(outcome.most_commands <= 2 * 8, "{} commands for one event", outcome.most_commands);
}
