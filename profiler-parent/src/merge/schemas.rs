//! The marker types of the merged profile, and how the payloads of an input must be changed.
//!
//! Types with the same name and contents are one. Types with the same name and other contents both
//! stay: the later one is called `NAME (2)`, and its markers have that type. Invariant: the number
//! depends on the order of the inputs only, so merging in steps gives the same names.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// How the value of a field depends on its profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldKind {
    /// The number of a text.
    Text,
    /// The number of a text that ties markers together.
    Flow,
    /// Milliseconds since the profile's start.
    Time,
    /// The number of a process.
    Process,
}

impl FieldKind {
    /// The kind of a field with this format; `None` if it is the same in every profile.
    fn of(format: &Value) -> Option<Self> {
        match format.as_str()? {
            "unique-string" => Some(Self::Text),
            "flow-id" | "terminating-flow-id" => Some(Self::Flow),
            "time" => Some(Self::Time),
            "pid" => Some(Self::Process),
            _ => None,
        }
    }
}

/// What must be changed in payloads of a type.
#[derive(Debug, Default)]
pub(super) struct PayloadPlan {
    /// The new name of the type.
    pub(super) renamed: Option<String>,
    pub(super) fields: Vec<(String, FieldKind)>,
}

impl PayloadPlan {
    pub(super) fn kind(&self, key: &str) -> Option<FieldKind> {
        let found = self.fields.iter().find(|(known, _)| known == key);
        found.map(|(_, kind)| *kind)
    }
}

/// The plans of an input, by type. Types whose payloads stay as they are have none.
pub(super) type PayloadPlans = HashMap<String, PayloadPlan>;

/// The types so far.
#[derive(Debug, Default)]
pub(super) struct Schemas {
    all: Vec<Value>,
    /// The types without their names, by the name without a number: the first is `NAME`, the second
    /// `NAME (2)`.
    by_name: HashMap<String, Vec<Map<String, Value>>>,
}

impl Schemas {
    /// Adds the types of an input, in the form of `meta`.
    pub(super) fn add(&mut self, list: Option<Value>) -> PayloadPlans {
        let Some(Value::Array(list)) = list else {
            return PayloadPlans::new();
        };
        let mut plans = PayloadPlans::new();
        for schema in list {
            let Value::Object(mut schema) = schema else {
                continue;
            };
            let Some(Value::String(name)) = schema.remove("name") else {
                continue;
            };
            let fields = fields_of(&schema);
            let new = self.place(&name, schema);
            let renamed = Some(new).filter(|new| *new != name);
            if renamed.is_some() || !fields.is_empty() {
                plans.insert(name, PayloadPlan { renamed, fields });
            }
        }
        plans
    }

    /// The name of a type, which is added if it is new.
    fn place(&mut self, name: &str, schema: Map<String, Value>) -> String {
        let base = without_number(name);
        let same_name = self.by_name.entry(base.to_owned()).or_default();
        let known = same_name.iter().position(|known| *known == schema);
        let at = known.unwrap_or(same_name.len());
        let name = match at {
            0 => base.to_owned(),
            at => format!("{base} ({})", at + 1),
        };
        if known.is_none() {
            same_name.push(schema.clone());
            let mut schema = schema;
            schema.insert("name".to_owned(), name.clone().into());
            self.all.push(Value::Object(schema));
        }
        name
    }

    /// The list, in the form of `meta`.
    pub(super) fn into_value(self) -> Value {
        self.all.into()
    }
}

fn fields_of(schema: &Map<String, Value>) -> Vec<(String, FieldKind)> {
    let fields = ["fields", "data"].map(|key| schema.get(key).and_then(Value::as_array));
    let fields = fields.into_iter().flatten().flatten();
    let of = |field: &Value| {
        let key = field.get("key")?.as_str()?.to_owned();
        Some((key, FieldKind::of(field.get("format")?)?))
    };
    fields.filter_map(of).collect()
}

/// `NAME` for `NAME (2)`.
fn without_number(name: &str) -> &str {
    let inner = name
        .strip_suffix(')')
        .and_then(|name| name.rsplit_once(" ("));
    match inner {
        Some((base, number)) if number.parse::<u32>().is_ok_and(|number| number > 1) => base,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema(name: &str, format: &str) -> Value {
        json!({"name": name, "fields": [{"key": "k", "format": format}]})
    }

    fn names(schemas: Schemas) -> Vec<String> {
        let all = schemas.into_value();
        let all = all.as_array().unwrap().iter();
        all.map(|schema| schema["name"].as_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn types_with_one_name_and_other_contents_all_stay_and_keep_their_fields() {
        let mut all = Schemas::default();
        assert!(all.add(Some(json!([schema("A", "integer")]))).is_empty());
        let plans = all.add(Some(json!([schema("A", "time"), schema("B", "flow-id")])));
        assert_eq!(plans["A"].renamed.as_deref(), Some("A (2)"));
        assert_eq!(plans["A"].kind("k"), Some(FieldKind::Time));
        assert_eq!(plans["B"].renamed, None);
        let plans = all.add(Some(json!([schema("A", "time")])));
        assert_eq!(plans["A"].renamed.as_deref(), Some("A (2)"));
        assert_eq!(names(all), ["A", "A (2)", "B"]);
    }

    #[test]
    fn merging_in_steps_gives_the_same_names() {
        let inputs = ["integer", "time", "pid"].map(|format| json!([schema("A", format)]));
        let mut at_once = Schemas::default();
        for input in inputs.clone() {
            at_once.add(Some(input));
        }
        let [first, second, third] = inputs;
        let mut last_two = Schemas::default();
        last_two.add(Some(second));
        last_two.add(Some(third));
        let mut in_steps = Schemas::default();
        in_steps.add(Some(first));
        in_steps.add(Some(last_two.into_value()));
        assert_eq!(in_steps.into_value(), at_once.into_value());
    }
}
