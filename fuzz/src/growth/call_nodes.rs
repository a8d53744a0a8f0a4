//! `.cpuprofile` files of a shape, in both forms.

use std::fmt::Write as _;

use super::rows::{caller, list, name};
use super::{Shape, Stacks};

/// A file with its nodes in a list.
pub(crate) fn nodes(shape: &Shape) -> String {
    let mut callees = vec![Vec::new(); shape.stacks];
    for row in 1..shape.stacks {
        callees[caller(shape, row).unwrap_or(0)].push(row);
    }
    let node = |row: usize| {
        let callees: Vec<String> = callees[row].iter().map(ToString::to_string).collect();
        format!(
            r#"{{"id":{row},"callFrame":{{"functionName":"{}","scriptId":"0","url":"","lineNumber":1,
            "columnNumber":1}},"hitCount":0,"children":[{}]}}"#,
            name(shape, row),
            callees.join(",")
        )
    };
    let all = list(shape.stacks, node);
    format!("{{\"nodes\":[{all}],{}}}", times(shape))
}

/// A file in the older form: each node contains its callees. Stacks are a chain or a comb.
pub(crate) fn nested_nodes(shape: &Shape) -> String {
    let mut text = "{\"head\":".to_owned();
    let step = if shape.stacks_are == Stacks::Comb {
        2
    } else {
        1
    };
    let open = |text: &mut String, row: usize| {
        let name = name(shape, row);
        let _ = write!(
            text,
            r#"{{"id":{row},"functionName":"{name}","url":"","hitCount":0,"children":["#
        );
    };
    let outer = (0..shape.stacks).step_by(step);
    for row in outer.clone() {
        open(&mut text, row);
        if step == 2 {
            open(&mut text, row + 1);
            text.push_str("]},");
        }
    }
    open(&mut text, shape.stacks + 1);
    text.push_str("]}");
    for _ in outer {
        text.push_str("]}");
    }
    let _ = write!(text, ",{}}}", times(shape));
    text
}

/// The times and the samples of both forms.
fn times(shape: &Shape) -> String {
    let samples = list(shape.samples, |at| shape.stack_of(at).to_string());
    let deltas = list(shape.samples, |_| "1000".to_owned());
    format!(
        r#""startTime":0,"endTime":{},"samples":[{samples}],"timeDeltas":[{deltas}]"#,
        shape.samples * 1000
    )
}
