//! Categories: the subject of a marker, label or sample, which the viewer shows as a colour.
//!
//! A category is a static. The statics here are in every build; an application adds its own. A
//! category is defined in the pool when it is first used. Categories of different processes are
//! merged by name. Compiled with and without the feature `engine`. Applications use this module as
//! [`crate::marker::category`].

#[cfg(all(feature = "engine", unix))]
pub(crate) mod by_target;
#[cfg(all(feature = "engine", unix))]
mod define;

use crate::definition_cell::DefinitionCell;
use crate::schema::CategoryColor;

/// A category with its subcategories.
///
/// ```
/// use profiler_core::marker::{Category, schema::CategoryColor};
///
/// static STORAGE: Category = Category::new("Storage", CategoryColor::Blue, &["Read", "Write"]);
/// let _write = STORAGE.sub(2);
/// ```
#[derive(Debug)]
#[cfg_attr(not(all(feature = "engine", unix)), allow(dead_code))] // nothing is defined there
pub struct Category {
    name: &'static str,
    color: CategoryColor,
    subcategories: &'static [&'static str],
    cell: DefinitionCell,
}

impl Category {
    /// A category; subcategory 0 is always "Other", the listed ones are 1, 2, ….
    pub const fn new(
        name: &'static str,
        color: CategoryColor,
        subcategories: &'static [&'static str],
    ) -> Self {
        Self {
            name,
            color,
            subcategories,
            cell: DefinitionCell::new(),
        }
    }

    /// Shown name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// This category with a subcategory; an unknown subcategory counts as "Other".
    pub const fn sub(&'static self, subcategory: u16) -> CategoryPair {
        let known = subcategory as usize <= self.subcategories.len();
        CategoryPair {
            category: self,
            subcategory: if known { subcategory } else { 0 },
        }
    }
}

/// A category and one of its subcategories.
#[derive(Clone, Copy, Debug)]
pub struct CategoryPair {
    category: &'static Category,
    subcategory: u16,
}

impl CategoryPair {
    /// The category.
    pub const fn category(self) -> &'static Category {
        self.category
    }

    /// Index of the subcategory; 0 is "Other".
    pub const fn subcategory(self) -> u16 {
        self.subcategory
    }
}

impl From<&'static Category> for CategoryPair {
    fn from(category: &'static Category) -> Self {
        Self {
            category,
            subcategory: 0,
        }
    }
}

/// Everything else; the default.
pub static OTHER: Category = Category::new("Other", CategoryColor::Grey, &[]);
/// Waiting for work.
pub static IDLE: Category = Category::new("Idle", CategoryColor::Transparent, &[]);
/// Messages between processes.
pub static IPC: Category = Category::new("IPC", CategoryColor::LightGreen, &[]);
/// Network.
pub static NETWORK: Category = Category::new("Network", CategoryColor::LightBlue, &[]);
/// Files and devices.
pub static IO: Category = Category::new("I/O", CategoryColor::Blue, &["Read", "Write"]);
/// Timers.
pub static TIMER: Category = Category::new("Timer", CategoryColor::Grey, &[]);
/// The profiler's own work.
pub static PROFILER: Category = Category::new("Profiler", CategoryColor::LightRed, &[]);
/// Tests.
pub static TEST: Category = Category::new("Test", CategoryColor::DarkGrey, &[]);
