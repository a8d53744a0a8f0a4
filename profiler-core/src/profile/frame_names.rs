//! What stands in a profile for frames that have no name of their own. The same words in all formats.

use crate::category::Category;
use crate::profile::spec::CategoryRow;
use crate::schema::CategoryColor;

/// Outermost frame of a stack whose frames further out are missing: cut off, or unwinding could not go on.
pub const TRUNCATED_STACK: &str = "(truncated stack)";

/// Name of a module that the pool does not define.
pub const UNKNOWN_MODULE: &str = "(unknown module)";

/// What code is about that no label says more of. In viewers the default category means "nothing known".
pub static USER: Category = Category::new("User", CategoryColor::Yellow, &[]);

/// The row of [`USER`] in a category list.
pub(super) fn user_row() -> CategoryRow {
    let (name, color) = (USER.name().to_owned(), CategoryColor::Yellow.name().to_owned());
    CategoryRow { name, color, subcategories: vec!["Other".to_owned()] }
}

/// Name of a thread of which there are samples and nothing else.
pub fn thread_without_row(tid: crate::ids::ThreadId) -> String {
    format!("(ended thread {tid})")
}

/// File name of a module's path.
pub fn module_name(path: &str) -> &str {
    match path.rsplit('/').next() {
        Some(name) if !name.is_empty() => name,
        _ => UNKNOWN_MODULE,
    }
}
