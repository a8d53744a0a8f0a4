//! The marker types of tasks and polls: their fields, and how viewers show them.
//!
//! Used by the sites of tasks and by the code that writes the markers. Invariant: the fields of a
//! type are written in the order in which they are listed here. The start and the end of a task
//! have the same fields, because a viewer shows the fields of both as those of one interval.

use profiler_core::marker::SpanMark;
use profiler_core::marker::schema::{Format, MarkerField, MarkerSchema};

/// The type of the starts and ends of tasks. `name` is unique.
pub(crate) fn task_schema(name: &str, description: &str) -> MarkerSchema {
    let type_name = format!("{}task {name}", SpanMark::TYPE_PREFIX);
    MarkerSchema::in_chart_and_table(type_name)
        .tooltip_label("{marker.name}")
        .chart_label("{marker.name} #{marker.data.task}")
        .table_label("{marker.name} #{marker.data.task}")
        .field(number("span", "Span").not_searchable())
        .field(number("task", "Task"))
        .field(number("parent", "Parent span").not_searchable())
        .field(number("by", "Spawned by task"))
        .key_label_format("note", "Note", Format::String)
        .field(number("polls", "Polls"))
        .key_label_format("inPolls", "Time in polls", Format::Duration)
        .key_label_format("longest", "Longest poll", Format::Duration)
        .key_label_format("lifetime", "Lifetime", Format::Duration)
        .key_label_format("end", "End", Format::String)
        .static_label_value("Description", description)
}

/// The type of polls.
pub(crate) fn poll_schema() -> MarkerSchema {
    MarkerSchema::in_chart_and_table("TokioPoll")
        .all_labels("{marker.name} #{marker.data.task} (poll)")
        .field(number("span", "Span").not_searchable())
        .field(number("task", "Task"))
}

/// The type of long polls.
pub(crate) fn long_poll_schema() -> MarkerSchema {
    MarkerSchema::in_chart_and_table("TokioLongPoll")
        .all_labels("{marker.name}: {marker.data.of} #{marker.data.task}")
        .field(number("span", "Span").not_searchable())
        .field(number("task", "Task"))
        .key_label_format("of", "Task's name", Format::UniqueString)
        .static_label_value(
            "Description",
            "A poll that kept the other tasks of its worker waiting",
        )
}

fn number(key: &str, label: &str) -> MarkerField {
    MarkerField::new(key, Format::Integer).label(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schemas_are_valid_and_tasks_are_numbered_spans() {
        let schemas = [task_schema("a", "b"), poll_schema(), long_poll_schema()];
        assert!(
            schemas
                .iter()
                .all(|schema| schema.check_of_profiler() == Ok(()))
        );
        assert!(SpanMark::is_type(&schemas[0].name));
        assert!(!SpanMark::is_type(&schemas[1].name) && !SpanMark::is_type(&schemas[2].name));
    }
}
