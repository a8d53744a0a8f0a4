#[profiler_core::label::function]
async fn fetch() {}

fn main() {}
