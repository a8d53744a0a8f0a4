//! An application for several systems that depends on the profiler on all of them.
//!
//! `.ci/run targets` compiles it for Windows and other systems, and the test runs it on this one.
//! It uses `profiler-child`, its macros, and each package for Rust under `integrations/`, without
//! any condition on the system. Without a session it does the same everywhere.

use std::time::Duration;

use profiler_child::core::alloc::ProfilingAllocator;
use profiler_child::core::counter::Counter;
use profiler_child::core::marker::schema::CategoryColor;
use profiler_child::core::time::Timestamp;
use profiler_child::core::{session, thread};
use profiler_child::flow::Flow;
use profiler_child::marker::{Category, MarkerOptions, ProfilerMarker};
use profiler_child::{Status, blocking, flow, group, label, marker, scope, span, text_marker};
use profiler_rayon::{JobContext, PoolProfile, job_site};
use profiler_tokio::{ProfileFuture, RuntimeRules};
use rayon::prelude::*;

#[global_allocator]
static ALLOCATOR: ProfilingAllocator = ProfilingAllocator::new();
static STORAGE: Category = Category::new("Storage", CategoryColor::Blue, &["Read"]);
static BYTES: Counter = Counter::new("Bytes", "Bandwidth", "Bytes read");

#[derive(serde::Serialize, ProfilerMarker)]
struct Request {
    #[field(format = "bytes", label = "Size")]
    bytes: u64,
}

fn main() -> anyhow::Result<()> {
    let status = profiler_child::init_within(Duration::from_millis(20));
    if let Status::Off(error) = &status {
        anyhow::bail!("the profiler is off: {error}");
    }
    thread::register("main");
    record();
    install_packages()?;
    tracing::info_span!("request", path = "/").in_scope(|| tracing::info!(bytes = 17, "read"));
    log::info!(bytes = 17; "read");
    metrics::counter!("requests_total").increment(1);
    metrics::histogram!("request_seconds").record(0.1);
    run_tasks()?;
    run_jobs()?;
    profiler_child::shutdown();
    anyhow::ensure!(!session::is_active(), "a session runs");
    println!("{status:?}");
    Ok(())
}

#[label::function]
fn record() {
    let start = Timestamp::now();
    let _scope = scope!("scope");
    let _label = label!("label", &STORAGE);
    let span = span!("span", &STORAGE, "text");
    span.detail("rows", "17");
    let _group = group!(Plugin, "spell checker").enter();
    let _waits = blocking!("disk");
    let options = MarkerOptions::interval_until_now_from(start);
    marker!("request", &STORAGE, options, &Request { bytes: 17 });
    text_marker!("text", &STORAGE, MarkerOptions::default(), "text");
    let request = Flow::new();
    flow!(begin request);
    flow!(end request, "answered", category = &STORAGE, bytes = 17);
    BYTES.add(17);
}

fn install_packages() -> anyhow::Result<()> {
    profiler_panic::install();
    profiler_crash::install()?;
    tracing::subscriber::set_global_default(profiler_tracing::subscriber())?;
    profiler_log::alone().install(log::LevelFilter::Info)?;
    profiler_metrics::alone().install()?;
    Ok(())
}

fn run_tasks() -> anyhow::Result<()> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = RuntimeRules::named("server").build(builder.worker_threads(1))?;
    let task = async { 5 }.profiled("request");
    let done = runtime.block_on(async { tokio::spawn(task).await })?;
    anyhow::ensure!(done == 5, "the task returns its own result");
    Ok(())
}

fn run_jobs() -> anyhow::Result<()> {
    let pool = PoolProfile::new("images").build(rayon::ThreadPoolBuilder::new().num_threads(1))?;
    let context = JobContext::of([group!("tenant:acme")]).named(job_site!("resize"));
    let sum: u32 = context.install(&pool, || {
        (0..100_u32)
            .into_par_iter()
            .map(|item| context.run(|| item))
            .sum()
    });
    anyhow::ensure!(sum == 4950, "the jobs return their own results");
    Ok(())
}
