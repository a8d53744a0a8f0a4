//! The categories of the merged profile.
//!
//! Categories with the same name and colour are one; they keep all their subcategories. Invariant:
//! the first category of the first input, which stands for unknown ones, stays the first.

use serde_json::{Map, Value};

/// A category, in the form of `meta`.
type Category = Map<String, Value>;

/// The categories so far, with their subcategories.
#[derive(Debug, Default)]
pub(super) struct Categories(Vec<(Category, Vec<Value>)>);

/// The numbers that the categories of one input have now.
#[derive(Debug, Default)]
pub(super) struct CategoryNumbers {
    pub(super) rows: Vec<u32>,
    subcategories: Vec<Vec<u32>>,
}

impl CategoryNumbers {
    /// The number of a category.
    pub(super) fn row(&self, old: Option<u32>) -> Result<Option<u32>, String> {
        let Some(old) = old else { return Ok(None) };
        let known = self.rows.get(old as usize).copied().map(Some);
        let count = self.rows.len();
        known.ok_or_else(|| format!("a table refers to category {old}, but there are {count}"))
    }

    /// The number of a subcategory. An unknown one is the first, which stands for all others.
    pub(super) fn subcategory(&self, category: Option<u32>, old: Option<u32>) -> Option<u32> {
        let numbers = category.and_then(|category| self.subcategories.get(category as usize));
        let known = numbers
            .and_then(|numbers| numbers.get(old? as usize))
            .copied();
        old.map(|_| known.unwrap_or(0))
    }
}

impl Categories {
    /// Adds the categories of an input, in the form of `meta`.
    pub(super) fn add(&mut self, list: Option<Value>) -> CategoryNumbers {
        let mut numbers = CategoryNumbers::default();
        let Some(Value::Array(list)) = list else {
            return numbers;
        };
        for category in list {
            let Value::Object(mut category) = category else {
                continue;
            };
            let own = match category.remove("subcategories") {
                Some(Value::Array(own)) => own,
                _ => Vec::new(),
            };
            let at = self.place(category);
            numbers.rows.push(narrow(at));
            numbers.subcategories.push(self.subcategories(at, own));
        }
        numbers
    }

    /// The place of a category, which is added if it is new.
    fn place(&mut self, category: Category) -> usize {
        let is_same = |(known, _): &(Category, Vec<Value>)| {
            ["name", "color"]
                .iter()
                .all(|key| known.get(*key) == category.get(*key))
        };
        self.0.iter().position(is_same).unwrap_or_else(|| {
            self.0.push((category, Vec::new()));
            self.0.len() - 1
        })
    }

    /// The places of subcategories, which are added if they are new.
    fn subcategories(&mut self, category: usize, names: Vec<Value>) -> Vec<u32> {
        let Some((_, known)) = self.0.get_mut(category) else {
            return Vec::new();
        };
        let mut place = |name: Value| {
            let at = known.iter().position(|other| *other == name);
            narrow(at.unwrap_or_else(|| {
                known.push(name);
                known.len() - 1
            }))
        };
        names.into_iter().map(&mut place).collect()
    }

    /// The list, in the form of `meta`.
    pub(super) fn into_value(self) -> Value {
        let whole = |(mut category, own): (Category, Vec<Value>)| {
            category.insert("subcategories".to_owned(), own.into());
            Value::Object(category)
        };
        self.0.into_iter().map(whole).collect()
    }
}

fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_same_name_and_colour_are_one_category_with_all_subcategories() {
        let mut all = Categories::default();
        let first = json!([
            {"name": "Other", "color": "grey", "subcategories": ["Other"]},
            {"name": "Disk", "color": "blue", "subcategories": ["Other", "Read"]},
        ]);
        let second = json!([
            {"name": "Other", "color": "grey", "subcategories": ["Other"]},
            {"name": "Disk", "color": "red", "subcategories": ["Other"]},
            {"name": "Disk", "color": "blue", "subcategories": ["Other", "Write", "Read"]},
        ]);
        assert_eq!(all.add(Some(first)).rows, [0, 1]);
        let numbers = all.add(Some(second));
        assert_eq!(numbers.rows, [0, 2, 1]);
        let sub = |old| numbers.subcategory(Some(2), Some(old));
        assert_eq!([sub(0), sub(1), sub(2)], [Some(0), Some(2), Some(1)]);
        assert!(numbers.row(Some(3)).is_err());
        let names = all.into_value();
        assert_eq!(names[1]["subcategories"], json!(["Other", "Read", "Write"]));
    }
}
