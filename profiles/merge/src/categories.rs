//! The categories of the merged profile.
//!
//! Categories with the same name and colour are one; they keep all their subcategories. Invariant:
//! the first category of the first input, which stands for unknown ones, stays the first.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// A category of the merged profile.
#[derive(Debug)]
struct Category {
    /// Its members in `meta`, without the subcategories.
    members: Map<String, Value>,
    subcategories: Vec<Value>,
    /// The places of the subcategories, by their text.
    places: HashMap<String, u32>,
}

/// The categories so far.
#[derive(Debug, Default)]
pub(super) struct Categories {
    all: Vec<Category>,
    /// The places of the categories, by name and colour.
    places: HashMap<[String; 2], usize>,
}

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
            let own = match self.all.get_mut(at) {
                Some(category) => own.into_iter().map(|name| category.place(name)).collect(),
                None => Vec::new(),
            };
            numbers.subcategories.push(own);
        }
        numbers
    }

    /// The place of a category, which is added if it is new.
    fn place(&mut self, members: Map<String, Value>) -> usize {
        let text = |key| members.get(key).map(Value::to_string).unwrap_or_default();
        let next = self.all.len();
        *self
            .places
            .entry(["name", "color"].map(text))
            .or_insert_with(|| {
                self.all.push(Category {
                    members,
                    subcategories: Vec::new(),
                    places: HashMap::new(),
                });
                next
            })
    }

    /// The list, in the form of `meta`.
    pub(super) fn into_value(self) -> Value {
        let whole = |category: Category| {
            let mut members = category.members;
            members.insert("subcategories".to_owned(), category.subcategories.into());
            Value::Object(members)
        };
        self.all.into_iter().map(whole).collect()
    }
}

impl Category {
    /// The place of a subcategory, which is added if it is new.
    fn place(&mut self, name: Value) -> u32 {
        let next = narrow(self.subcategories.len());
        *self.places.entry(name.to_string()).or_insert_with(|| {
            self.subcategories.push(name);
            next
        })
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

    #[test]
    fn a_hundred_thousand_categories_and_subcategories_are_placed() {
        let names: Vec<String> = (0..100_000).map(|at| format!("c{at}")).collect();
        let mut list: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
        list.push(json!({"name": "c0", "subcategories": names}));
        let mut all = Categories::default();
        all.add(Some(list.clone().into()));
        let numbers = all.add(Some(list.into()));
        assert_eq!(numbers.rows.last(), Some(&0));
        assert_eq!(numbers.subcategory(Some(100_000), Some(77)), Some(77));
    }
}
