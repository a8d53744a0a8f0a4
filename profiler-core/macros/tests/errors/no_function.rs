#[profiler_core::label::function]
struct Request;

fn main() {}
