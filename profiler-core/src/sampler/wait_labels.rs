//! The labels that show which process or thread a waiting thread waits for.
//!
//! Used by `own_waits` for this process, and by `observed` for others. Invariant: a name has one
//! definition in a pool.

use std::collections::HashMap;

use crate::entry::stack::Frame;
use crate::ids::DefinitionId;
use crate::pool::definitions::{CategoryDefinition, Definition, LabelDefinition};

/// The name of the category of these labels.
const WAITING: &str = "Waiting";
/// The maximum number of labels of a process.
const MAX_WAIT_LABELS: usize = 512;

/// Adds a definition to the pool of the process. `None` if there is no room.
pub(super) type Define<'a> = &'a dyn Fn(&Definition) -> Option<DefinitionId>;

/// The labels of the waits of one process.
#[derive(Debug, Default)]
pub(super) struct WaitLabels {
    labels: HashMap<String, DefinitionId>,
    /// The category, once it is defined.
    category: Option<DefinitionId>,
}

impl WaitLabels {
    /// The label with this name. `None` if there is no room for it.
    pub(super) fn label(&mut self, name: &str, define: Define<'_>) -> Option<Frame> {
        if let Some(label) = self.labels.get(name) {
            return Some(Frame::Label(*label));
        }
        if self.labels.len() >= MAX_WAIT_LABELS {
            return None;
        }
        let category = self.category(define)?;
        let definition = Definition::Label(LabelDefinition {
            name: name.to_owned(),
            category,
            subcategory: 0,
            file: String::new(),
            line: 0,
        });
        let label = define(&definition)?;
        self.labels.insert(name.to_owned(), label);
        Some(Frame::Label(label))
    }

    fn category(&mut self, define: Define<'_>) -> Option<DefinitionId> {
        if self.category.is_none() {
            self.category = define(&Definition::Category(CategoryDefinition {
                name: WAITING.to_owned(),
                color: "orange".to_owned(),
                subcategories: Vec::new(),
            }));
        }
        self.category
    }
}
