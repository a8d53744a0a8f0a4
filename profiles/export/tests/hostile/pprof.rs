//! Reads a pprof profile according to its specification, and checks that all its references are
//! valid.
//!
//! Used by `exported`.

use std::collections::HashSet;

use test_support::protobuf::{Field, fields, packed};

fn number(message: &[u8], field: u64) -> u64 {
    let has_number =
        |found: &Field<'_>| matches!(found, Field::Number(number, _) if *number == field);
    fields(message)
        .iter()
        .rfind(|found| has_number(found))
        .map_or(0, |found| match found {
            Field::Number(_, value) => *value,
            Field::Bytes(..) => 0,
        })
}

/// Checks a whole profile. Returns its number of samples.
pub(crate) fn check(bytes: &[u8]) -> u64 {
    let all = fields(bytes);
    let of = |wanted: u64| {
        all.iter().filter_map(move |field| match field {
            Field::Bytes(number, bytes) if *number == wanted => Some(*bytes),
            _ => None,
        })
    };
    let texts: Vec<&str> = of(6)
        .map(|text| std::str::from_utf8(text).expect("UTF-8"))
        .collect();
    assert_eq!(texts.first(), Some(&""));
    let is_text = |at: u64| (at as usize) < texts.len();
    let ids = |field: u64| {
        of(field)
            .map(|message| number(message, 1))
            .collect::<HashSet<u64>>()
    };
    let mappings = ids(3);
    let locations = ids(4);
    let functions = ids(5);
    assert!(of(5).all(|function| is_text(number(function, 2)) && is_text(number(function, 4))));
    for location in of(4) {
        let mapping = number(location, 2);
        assert!(mapping == 0 || mappings.contains(&mapping));
        for field in fields(location) {
            if let Field::Bytes(4, line) = field {
                assert!(functions.contains(&number(line, 1)));
            }
        }
    }
    assert_eq!(of(1).count(), 3, "three values");
    of(2)
        .map(|sample| check_sample(sample, &locations, &is_text))
        .sum()
}

/// Checks a sample. Returns the number of samples that it stands for.
fn check_sample(sample: &[u8], locations: &HashSet<u64>, is_text: &impl Fn(u64) -> bool) -> u64 {
    let mut samples = 0;
    for field in fields(sample) {
        match field {
            Field::Bytes(1, stack) => {
                let stack = packed(stack);
                assert!(
                    !stack.is_empty() && stack.iter().all(|location| locations.contains(location))
                );
            }
            Field::Bytes(2, values) => {
                let values = packed(values);
                assert_eq!(values.len(), 3);
                assert!(
                    values.iter().all(|value| i64::try_from(*value).is_ok()),
                    "{values:?}"
                );
                samples = values[0];
            }
            Field::Bytes(3, label) => {
                assert!(is_text(number(label, 1)) && is_text(number(label, 2)))
            }
            _ => panic!("an unknown field of a sample"),
        }
    }
    samples
}
