//! Defines modules and labels for programs that have a sampler of their own.
//!
//! A definition lasts as long as the session's pool and is never removed: define each module and
//! label once per session. Not for signal handlers. In a forked child nothing can be defined.

use crate::category::CategoryPair;
use crate::ids::DefinitionId;
use crate::pool::definitions::{Definition, LabelDefinition, ModuleDefinition};
use crate::record::local;

/// Defines a file of executable code. `None` while no session runs, and if the pool has no room
/// left for names.
pub fn define_module(module: &ModuleDefinition) -> Option<DefinitionId> {
    let definition = Definition::Module(module.clone());
    local::with_manager(|manager| manager.pool().define(&definition).ok())
}

/// Defines a frame by its name, such as a function of an interpreted program. `None` while no
/// session runs, and if the pool has no room left for names.
pub fn define_label(
    name: &str,
    about: impl Into<CategoryPair>,
    file: &str,
    line: u32,
) -> Option<DefinitionId> {
    let about = about.into();
    let name = name.to_owned();
    let file = file.to_owned();
    let subcategory = about.subcategory();
    local::with_manager(|manager| {
        let category = about.define(manager).ok()?;
        manager
            .pool()
            .define(&Definition::Label(LabelDefinition {
                name,
                category,
                subcategory,
                file,
                line,
            }))
            .ok()
    })
}
