//! A child of a session with every package for Rust under `integrations/`. The README of each
//! package shows this program; the test `readmes` compares them.

use profiler_rayon::{JobContext, PoolProfile, job_site};
use profiler_tokio::{ProfileFuture, RuntimeRules};

fn main() -> anyhow::Result<()> {
    if let profiler_child::Status::Off(error) = profiler_child::init() {
        eprintln!("not profiled: {error}"); // the program runs on
    }
    profiler_crash::install()?;
    profiler_panic::install();
    tracing::subscriber::set_global_default(profiler_tracing::subscriber())?;
    profiler_log::alone().install(log::LevelFilter::Info)?;
    profiler_metrics::alone().install()?;

    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = RuntimeRules::named("server").build(builder.enable_all())?;
    let pool = PoolProfile::new("images").build(rayon::ThreadPoolBuilder::new())?;
    let acme = JobContext::of([profiler_child::group!("tenant:acme")]).named(job_site!("resize"));

    let request = async {
        let _span = tracing::info_span!("request", path = "/").entered();
        metrics::counter!("requests_total").increment(1);
        let size = acme.install(&pool, || acme.run(|| 17));
        log::info!(size; "answered");
    };
    runtime.block_on(request.profiled("request"));
    Ok(())
}
