trait Plugin {
    #[profiler_core::label::function]
    fn run(&self);
}

fn main() {}
