//! The names that all profile formats use for frames, modules and threads without a known name.

use profiler_core::category::Category;
use profiler_core::marker::schema::CategoryColor;

/// Name of the outermost frame of a stack whose frames further out are missing: the stack was cut,
/// or unwinding failed.
pub const TRUNCATED_STACK: &str = "(truncated stack)";

/// Name of a module that the pool does not define.
pub const UNKNOWN_MODULE: &str = "(unknown module)";

/// The category of code outside all labels. The default category would mean "unknown" in viewers.
pub static USER: Category = Category::new("User", CategoryColor::Yellow, &[]);

/// The category of the innermost frame of a sample without processor time. Viewers recognise it by
/// this name: they offer to leave out the samples whose stack ends in this category.
pub static IDLE: Category = Category::new("Idle", CategoryColor::Transparent, &[]);

/// Name of a thread that is known from samples only.
pub fn thread_without_row(tid: profiler_core::ids::ThreadId) -> String {
    format!("(ended thread {tid})")
}

/// File name of a module's path.
pub fn module_name(path: &str) -> &str {
    match path.rsplit('/').next() {
        Some(name) if !name.is_empty() => name,
        _ => UNKNOWN_MODULE,
    }
}
