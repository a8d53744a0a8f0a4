"""Reads traces with Perfetto's own descriptors, and prints what they contain.

    python3 perfetto_fields.py TRACE...

Ends with 1 if a message has a field that its descriptor does not have, or if a reference of a
track is wrong. Needs the package `perfetto` from PyPI.
"""

import collections
import json
import sys

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2


def unknown(message, path):
    """Yields the fields that the descriptors do not have, and values that no enumeration has."""
    for field in UnknownFieldSet(message):
        yield f"{path}: {field.field_number}"
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        is_list = not hasattr(value, "ListFields")
        for inner in value if is_list else [value]:
            yield from unknown(inner, f"{path}.{field.name}")


def contents(trace):
    events = [packet.track_event for packet in trace.packet if packet.HasField("track_event")]
    tracks = {packet.track_descriptor.uuid for packet in trace.packet if packet.HasField("track_descriptor")}
    assert all(event.track_uuid in tracks for event in events), "an event of no track"
    types = collections.Counter(perfetto_trace_pb2.TrackEvent.Type.Name(event.type) for event in events)
    flows = sum(len(event.flow_ids) + len(event.terminating_flow_ids) for event in events)
    return {
        "types": dict(types),
        "flows": flows,
        "stacks": sum(event.HasField("callstack_iid") for event in events),
        "samples": sum(packet.HasField("perf_sample") for packet in trace.packet),
        "clocks": [packet.clock_snapshot.primary_trace_clock for packet in trace.packet if packet.HasField("clock_snapshot")],
        "commands": [list(packet.track_descriptor.process.cmdline) for packet in trace.packet if packet.track_descriptor.process.cmdline],
    }


def main(files):
    all_contents = []
    for file in files:
        trace = perfetto_trace_pb2.Trace()
        with open(file, "rb") as opened:
            trace.ParseFromString(opened.read())
        found = list(unknown(trace, "Trace"))
        if found:
            sys.exit(f"{file}: fields without a descriptor: {found[:9]}")
        all_contents.append(contents(trace))
    print(json.dumps(all_contents))


main(sys.argv[1:])
