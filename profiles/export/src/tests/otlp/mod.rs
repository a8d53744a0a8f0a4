//! Tests of OTLP: the messages that the types of `opentelemetry-proto` decode. The decoder of the
//! Python package, and a real agent, read requests in `integration-tests`.

mod bodies;
mod fixture;
mod metrics;
mod profiles;
mod pyroscope;
mod random;
mod traces;

pub(super) use fixture::profile;

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;

use super::*;
use crate::bodies::{BodyKind, BodyLimit, BodySink, EncodedBody};
use crate::encode::{EncodeOptions, Encoding, encode};

/// Keeps all bodies.
#[derive(Default)]
pub(super) struct Kept(pub(super) Vec<(BodyKind, Vec<u8>)>);

impl BodySink for Kept {
    fn body(&mut self, body: EncodedBody<'_>) -> Result<(), ExportError> {
        self.0.push((body.kind, body.bytes.to_vec()));
        Ok(())
    }
}

/// The bodies of a profile with a limit.
pub(super) fn encoded(profile: &Value, encoding: Encoding, most: usize) -> Kept {
    let directory = tempfile::tempdir().unwrap();
    let from = directory.path().join("profile.json");
    std::fs::write(&from, profile.to_string()).unwrap();
    let labels = FleetLabels::default();
    let mut kept = Kept::default();
    let options = EncodeOptions {
        encoding,
        labels: &labels,
        names: false,
        most_bytes: most,
    };
    encode(&from, options, &mut kept).unwrap();
    kept
}

/// The bodies of a profile.
fn bodies(profile: &Value, signal: Signal, limit: BodyLimit) -> Vec<Vec<u8>> {
    let (encoding, target) = match signal {
        Signal::Traces => (Encoding::OtlpTraces, Target::OtlpTraces),
        Signal::Metrics => (Encoding::OtlpMetrics, Target::OtlpMetrics),
        Signal::Profiles => (Encoding::OtlpProfiles, Target::OtlpProfiles),
    };
    match limit {
        BodyLimit::Bytes(most) => {
            let kept = encoded(profile, encoding, most);
            kept.0.into_iter().map(|(_, bytes)| bytes).collect()
        }
        BodyLimit::OneRequest => vec![file(profile, target)],
    }
}

/// The bytes of the file that an export writes.
fn file(profile: &Value, target: Target) -> Vec<u8> {
    let (directory, _) = exported(profile, target, TimeKind::Cpu);
    std::fs::read(directory.path().join("out")).unwrap()
}

fn traces(profile: &Value) -> ExportTraceServiceRequest {
    Message::decode(file(profile, Target::OtlpTraces).as_slice()).unwrap()
}

fn metrics(profile: &Value) -> ExportMetricsServiceRequest {
    Message::decode(file(profile, Target::OtlpMetrics).as_slice()).unwrap()
}

fn profiles(profile: &Value) -> ExportProfilesServiceRequest {
    Message::decode(file(profile, Target::OtlpProfiles).as_slice()).unwrap()
}

/// A value as JSON.
fn shown(value: &Option<AnyValue>) -> Value {
    match value.as_ref().and_then(|value| value.value.as_ref()) {
        None => Value::Null,
        Some(Any::StringValue(text)) => Value::from(text.as_str()),
        Some(Any::BoolValue(value)) => Value::from(*value),
        Some(Any::IntValue(number)) => Value::from(*number),
        Some(Any::DoubleValue(number)) => Value::from(*number),
        Some(Any::ArrayValue(list)) => list
            .values
            .iter()
            .map(|value| shown(&Some(value.clone())))
            .collect(),
        Some(Any::KvlistValue(list)) => {
            let member = |pair: &KeyValue| (pair.key.clone(), shown(&pair.value));
            list.values.iter().map(member).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// Attributes by their keys, each of which occurs once.
fn attributes(all: &[KeyValue]) -> BTreeMap<String, Value> {
    let by_key: BTreeMap<_, _> = all
        .iter()
        .map(|pair| (pair.key.clone(), shown(&pair.value)))
        .collect();
    assert_eq!(by_key.len(), all.len(), "a key occurs twice: {all:?}");
    by_key
}

/// Attributes as one line.
fn line(all: &[KeyValue]) -> String {
    Value::from_iter(attributes(all)).to_string()
}

fn resource(of: &Option<Resource>) -> String {
    line(&of.as_ref().unwrap().attributes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
