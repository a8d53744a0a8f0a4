//! One category per crate: the first segment of a target such as `hyper::proto`.
//!
//! Called by the packages under `integrations/` when they define what they record. Categories are
//! made once and live as long as the process; there are at most [`MAX`], and the targets after
//! them are in the category "Other". A thread waits only while another one makes a category. A
//! child that is forked in this moment waits forever when it needs a category that was not made.

use std::sync::OnceLock;

use super::{Category, OTHER};
use crate::schema::CategoryColor;

/// Most categories.
const MAX: usize = 256;

static KNOWN: [OnceLock<Category>; MAX] = [const { OnceLock::new() }; MAX];

/// The category of a target such as `hyper::proto`.
pub fn category_of_target(target: &str) -> &'static Category {
    let name = target.split("::").next().unwrap_or(target);
    KNOWN
        .iter()
        .map(|place| place.get_or_init(|| new_category(name)))
        .find(|known| known.name() == name)
        .unwrap_or(&OTHER)
}

fn new_category(name: &str) -> Category {
    let name: &'static str = Box::leak(Box::from(name));
    Category::new(name, color_of(name), &[])
}

/// The same name has the same colour in all processes.
fn color_of(name: &str) -> CategoryColor {
    let sum = name.bytes().fold(0_usize, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(byte.into())
    });
    // The first colour is transparent.
    let colors = CategoryColor::ALL.get(1..).unwrap_or_default();
    let index = sum.checked_rem(colors.len()).unwrap_or(0);
    colors.get(index).copied().unwrap_or_default()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn targets_of_one_crate_have_one_category() {
        let hyper = category_of_target("hyper::proto::h1");
        assert_eq!(hyper.name(), "hyper");
        assert!(std::ptr::eq(hyper, category_of_target("hyper")));
        assert!(!std::ptr::eq(hyper, category_of_target("h2")));
    }
}
