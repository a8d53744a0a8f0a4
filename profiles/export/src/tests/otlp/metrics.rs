//! Tests of metrics.

use std::fmt::Write as _;

use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{Metric, NumberDataPoint};
use serde_json::json;

use super::*;

fn points(metric: &Metric) -> (&[NumberDataPoint], String) {
    match metric.data.as_ref().unwrap() {
        Data::Gauge(gauge) => (&gauge.data_points, "gauge".to_owned()),
        Data::Sum(sum) => {
            let kind = if sum.is_monotonic {
                "sum"
            } else {
                "up-down sum"
            };
            (
                &sum.data_points,
                format!("{kind}, temporality {}", sum.aggregation_temporality),
            )
        }
        other => panic!("{other:?}"),
    }
}

/// A request as text; times in milliseconds since the session's start.
pub(super) fn text(request: &ExportMetricsServiceRequest) -> String {
    let ms = |ns: u64| ns.saturating_sub(1_700_000_000_000_000_000) as f64 / 1e6;
    let mut text = String::new();
    for of_resource in &request.resource_metrics {
        writeln!(text, "{}", resource(&of_resource.resource)).unwrap();
        for metric in of_resource
            .scope_metrics
            .iter()
            .flat_map(|scope| &scope.metrics)
        {
            let (points, kind) = points(metric);
            writeln!(
                text,
                "  {} [{}] {kind}: {}",
                metric.name, metric.unit, metric.description
            )
            .unwrap();
            for point in points {
                let value = match point.value.unwrap() {
                    Number::AsDouble(value) => json!(value),
                    Number::AsInt(value) => json!(value),
                };
                let times = [point.start_time_unix_nano, point.time_unix_nano].map(ms);
                writeln!(text, "    {times:?} {value} {}", line(&point.attributes)).unwrap();
            }
        }
    }
    text
}

#[test]
fn a_whole_request_of_metrics() {
    insta::assert_snapshot!(text(&metrics(&fixture::profile())));
}

#[test]
fn a_counter_has_its_last_value_of_each_second() {
    let mut profile = fixture::profile();
    let ones = vec![1; 10_000];
    profile["counters"] = json!([{"name": "processCPU", "category": "CPU", "pid": "12",
        "samples": {"timeDeltas": ones, "count": ones, "number": ones}}]);
    profile["meta"]["sampleUnits"]["threadCPUDelta"] = json!("ns");
    let request = metrics(&profile);
    let scopes = request
        .resource_metrics
        .iter()
        .flat_map(|resource| &resource.scope_metrics);
    let all: Vec<&Metric> = scopes.flat_map(|scope| &scope.metrics).collect();
    let cpu = all
        .iter()
        .find(|metric| metric.name == "process.cpu.time")
        .unwrap();
    let values: Vec<f64> = points(cpu)
        .0
        .iter()
        .map(|point| match point.value.unwrap() {
            Number::AsDouble(seconds) => (seconds * 1e9).round(),
            Number::AsInt(seconds) => seconds as f64 * 1e9,
        })
        .collect();
    let expected: Vec<f64> = (1..=10)
        .map(|second| f64::from(second * 1000 - 1))
        .chain([10_000.0])
        .collect();
    assert_eq!(values, expected);
}
