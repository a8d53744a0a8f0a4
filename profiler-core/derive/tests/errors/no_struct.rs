use profiler_core::marker::ProfilerMarker;

#[derive(serde::Serialize, ProfilerMarker)]
enum Load {
    Bytes,
}

fn main() {}
