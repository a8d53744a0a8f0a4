//! A program whose metrics are in Prometheus' format and in a profile: `cargo run --example
//! requests`.
//!
//! Two threads handle requests. The standard output has what a scrape of Prometheus would get; the
//! profile `requests.json.gz` has the tracks of all metrics, and an interval for each request.

use std::hint::black_box;
use std::thread::Builder;

use metrics::{Unit, counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::PrometheusBuilder;
use profiler_parent::Session;
use test_support::patience::Stopwatch;

fn main() -> anyhow::Result<()> {
    let prometheus = PrometheusBuilder::new().build_recorder();
    let scrape = prometheus.handle();
    profiler_metrics::around(prometheus).install()?;
    describe_histogram!("request_time", Unit::Seconds, "Time of a request");
    describe_gauge!("requests_in_flight", "Requests that are being handled");
    let session = Session::builder().start()?;
    let workers = ["worker 1", "worker 2"].map(|name| Builder::new().name(name.into()).spawn(work));
    for worker in workers {
        let _ = worker?.join();
    }
    session.capture().save("requests.json.gz")?;
    print!("{}", scrape.render());
    println!("requests.json.gz: open it with `profiler view` or at https://profiler.firefox.com");
    Ok(())
}

fn work() {
    let in_flight = gauge!("requests_in_flight");
    for number in 0..20_u64 {
        let watch = Stopwatch::start();
        in_flight.increment(1);
        let sum = (0..2_000_000).fold(0, |sum, step| black_box(sum ^ (step * number)));
        counter!("sent_bytes_total").increment(1000 + sum % 1000);
        let status = if number == 13 { "500" } else { "200" };
        counter!("requests_total", "status" => status).increment(1);
        in_flight.decrement(1);
        histogram!("request_time").record(watch.elapsed());
    }
}
