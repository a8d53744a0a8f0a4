//! `controller.events_s`, `controller.messages_per_mib`: the global controller with ten thousand
//! processes in simulated time; the same crowd as in the controller's own tests.
//!
//! The crowd is simulated once, and all that the controller was told is told to another one,
//! which does the same again: what is measured is the processor time of that alone.

#[path = "../../../../../profiler-parent/tests/controller/child.rs"]
#[allow(dead_code, unreachable_pub)]
mod child;
#[path = "../../../../../profiler-parent/tests/controller/simulation.rs"]
#[allow(dead_code, unreachable_pub)]
mod simulation;

use profiler_core::ids::ByteLimit;
use profiler_parent::internal::controller::Controller;

use crate::figure::{Figure, Promise, Report};
use crate::measure::cpu_ns_of;

pub(super) fn measure(report: &mut Report) {
    let crowd = simulation::Scenario { keep_events: true, seconds: 5, ..simulation::crowd() };
    let mut controller = Controller::new(ByteLimit::new(crowd.limit), crowd.policy);
    let mut outcome = simulation::simulate(crowd);
    let (told, mut out) = (std::mem::take(&mut outcome.told), Vec::new());
    let count = told.len() as f64;
    let (took, _) = cpu_ns_of(|| {
        for event in told {
            controller.handle(event, &mut out);
            out.clear();
        }
    });
    let events = count / (took / 1e9);
    report.put(Figure::new("controller.events_s", events, "1/s").promised(Promise::AtLeast(200_000.0)));
    report.put(Figure::new("controller.messages_per_mib", outcome.messages_per_mib(), "1/MiB"));
}
