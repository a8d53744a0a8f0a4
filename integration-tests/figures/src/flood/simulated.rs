//! `controller.events_s`, `controller.messages_per_mib`: the global controller with 10,000
//! processes in simulated time, in the scenario of the controller's own tests.
//!
//! The scenario is simulated once. Then a second controller handles the same events again, and only
//! the processor time of this replay is measured.

#[path = "../../../../profiler-parent/tests/controller/child.rs"]
#[allow(dead_code, unreachable_pub)]
mod child;
#[path = "../../../../profiler-parent/tests/controller/simulation.rs"]
#[allow(dead_code, unreachable_pub)]
mod simulation;

use profiler_core::ids::ByteLimit;
use profiler_parent::internal::controller::Controller;

use integration_tests::figure::{Figure, Promise, Report};
use integration_tests::measure::cpu_ns_of;

pub(super) fn measure(report: &mut Report) {
    let crowd = simulation::Scenario {
        keep_events: true,
        seconds: 5,
        ..simulation::crowd()
    };
    let mut controller = Controller::new(ByteLimit::new(crowd.limit), crowd.policy);
    let mut outcome = simulation::simulate(crowd);
    let events = std::mem::take(&mut outcome.told);
    let mut out = Vec::new();
    let count = events.len() as f64;
    let (took, _) = cpu_ns_of(|| {
        for event in events {
            controller.handle(event, &mut out);
            out.clear();
        }
    });
    let rate = count / (took / 1e9);
    report
        .put(Figure::new("controller.events_s", rate, "1/s").promised(Promise::AtLeast(200_000.0)));
    report.put(Figure::new(
        "controller.messages_per_mib",
        outcome.messages_per_mib(),
        "1/MiB",
    ));
}
