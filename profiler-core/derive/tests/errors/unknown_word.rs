use profiler_core::marker::ProfilerMarker;

#[derive(serde::Serialize, ProfilerMarker)]
struct Load {
    #[field(formt = "bytes")]
    bytes: u64,
}

fn main() {}
