"""Decodes requests of OTLP with the types of the package `opentelemetry-proto`, and prints what is
in them. Called by the tests of OTLP with the files of traces, metrics and profiles."""

import json
import sys

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2 import (
    ExportProfilesServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


def decoded(kind, path):
    """The request, after a check that the types know all of its fields."""
    with open(path, "rb") as file:
        data = file.read()
    request = kind.FromString(data)
    assert request.ByteSize() == len(data) or kind is ExportProfilesServiceRequest, "other encoding"
    known = kind.FromString(data)
    known.DiscardUnknownFields()
    assert known == request, f"{path} has fields that {kind.__name__} does not have"
    return request


def text(value):
    """The value of an attribute."""
    return getattr(value, value.WhichOneof("value"))


def service(resource):
    return {pair.key: text(pair.value) for pair in resource.attributes}["service.name"]


def spans(request):
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            yield from scope.spans


def metrics(request):
    for resource in request.resource_metrics:
        for scope in resource.scope_metrics:
            yield from scope.metrics


def profiles(request):
    for resource in request.resource_profiles:
        for scope in resource.scope_profiles:
            yield from scope.profiles


def sums(request):
    """The sum of each type of values, and the names of all functions in samples."""
    tables = request.dictionary
    totals, functions, linked = {}, set(), 0
    for profile in profiles(request):
        kind = tables.string_table[profile.sample_type.type_strindex]
        for sample in profile.samples:
            totals[kind] = totals.get(kind, 0) + sum(sample.values)
            linked += sample.link_index > 0
            assert sample.link_index < len(tables.link_table)
            for location in tables.stack_table[sample.stack_index].location_indices:
                for line in tables.location_table[location].lines:
                    function = tables.function_table[line.function_index]
                    functions.add(tables.string_table[function.name_strindex])
    return totals, sorted(functions), linked


def main():
    traces = decoded(ExportTraceServiceRequest, sys.argv[1])
    counters = decoded(ExportMetricsServiceRequest, sys.argv[2])
    samples = decoded(ExportProfilesServiceRequest, sys.argv[3])
    totals, functions, linked = sums(samples)
    resources = [*traces.resource_spans, *counters.resource_metrics, *samples.resource_profiles]
    result = {
        "services": sorted({service(of.resource) for of in resources}),
        "spans": [
            {
                "name": span.name,
                "trace": span.trace_id.hex(),
                "id": span.span_id.hex(),
                "parent": span.parent_span_id.hex(),
                "attributes": {pair.key: text(pair.value) for pair in span.attributes},
            }
            for span in spans(traces)
        ],
        "metrics": sorted({metric.name for metric in metrics(counters)}),
        "totals": totals,
        "functions": functions,
        "linked": linked,
    }
    print(json.dumps(result))


main()
