//! Two tenants share a pool: `cargo run --release -p profiler-rayon --example parallel_requests`.
//!
//! Each request splits its work into jobs. While a worker waits for the jobs of a request, it
//! executes jobs of other requests. The table shows for whom the workers worked, and the profile
//! `parallel_requests.json.gz` has each job with its request.

use std::hint::black_box;

use profiler_core::groups::{Group, GroupKind};
use profiler_core::span;
use profiler_parent::Session;
use profiler_parent::groups::Probes;
use profiler_rayon::{JobContext, PoolProfile, job_site};
use rayon::ThreadPoolBuilder;
use rayon::prelude::*;

fn main() -> anyhow::Result<()> {
    let session = Session::builder().start()?;
    let _measured = session.monitor(Probes::ALL);
    let requests = Group::register(GroupKind::Component, "requests");
    let profile = PoolProfile::new("requests").group(requests);
    let pool = profile.build(ThreadPoolBuilder::new())?;
    let tenants = [("acme", 1), ("globex", 3)];
    let tenants = tenants.map(|(name, rounds)| (Group::register(GroupKind::Tenant, name), rounds));
    pool.scope(|scope| {
        for (tenant, rounds) in tenants.iter().cycle().take(20) {
            scope.spawn(|_| handle(tenant, *rounds));
        }
    });
    for group in session.groups().merged() {
        let (totals, kind) = (group.totals, group.kind);
        let milliseconds = totals.wall_ns / 1_000_000;
        println!(
            "{kind} {}: {} jobs, {milliseconds} ms",
            group.name, totals.runs
        );
    }
    session.capture().save("parallel_requests.json.gz")?;
    println!("parallel_requests.json.gz: open it with `profiler view`");
    Ok(())
}

/// Handles a request of a tenant in parallel.
fn handle(tenant: &Group, rounds: u64) {
    let request = span!("request");
    let context = JobContext::of([tenant])
        .named(job_site!("part of a request"))
        .parent(request.id())
        .intervals();
    let parts: Vec<u64> = (0..16).collect();
    let sum: u64 = parts
        .par_iter()
        .map(|part| context.run(|| compute(part + rounds * 500_000)))
        .sum();
    request.detail("sum", &sum.to_string());
}

/// Uses the processor for some milliseconds.
fn compute(rounds: u64) -> u64 {
    (0..rounds).fold(0, |sum, number| black_box(sum ^ number))
}
