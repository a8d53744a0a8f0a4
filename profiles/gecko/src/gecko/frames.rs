//! The frame table of one thread: the name and the category of each frame.
//!
//! Filled through [`super::stacks`], written after all rows that use it. Code is shown as an
//! address, which viewers look up in `libs`; a label by its name.

use std::borrow::Cow;
use std::io::Write;

use super::process::GeckoProcess;
use super::table;
use crate::frame_names::{IDLE, TRUNCATED_STACK, UNKNOWN_MODULE, USER, module_name};
use crate::model::{find_category, label_category};
use profiler_core::ids::DefinitionId;
use profiler_core::internal::entry::stack::Frame;
use profiler_json::JsonWriter;
use profiler_json::interner::Interner;
use profiler_json::strings::StringTable;

const SCHEMA: &str = r#"{"location":0,"relevantForJS":1,"innerWindowID":2,"implementation":3,"line":4,"column":5,"category":6,"subcategory":7}"#;

/// A character without width. Keeps viewers from parsing a name as an address or a source location.
const MARK: char = '\u{200b}';

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ShownFrame {
    /// A frame without another frame around it.
    Outermost(Frame),
    /// Any other frame.
    Inner(Frame),
    /// The innermost frame of a sample without processor time.
    Idle(Frame),
    /// The placeholder for missing frames.
    Truncated,
}

/// Number of a frame in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FrameId(u32);

impl FrameId {
    pub(super) fn get(self) -> u64 {
        u64::from(self.0)
    }
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct FrameTable {
    rows: Interner<ShownFrame>,
}

impl FrameTable {
    /// The number of a frame, a new one if it was not seen before.
    pub(super) fn intern(&mut self, frame: ShownFrame) -> FrameId {
        FrameId(self.rows.intern(frame, usize::MAX).unwrap_or(u32::MAX))
    }

    /// Writes the key `frameTable`.
    pub(super) fn write<W: Write>(
        &self,
        process: &GeckoProcess<'_>,
        strings: &mut StringTable,
        out: &mut JsonWriter<W>,
    ) {
        let category =
            |name| find_category(&process.model.spec.categories, name).map(|row| (row, 0));
        let user = category(USER.name());
        let idle = category(IDLE.name());
        table::begin("frameTable", SCHEMA, out);
        for frame in self.rows.all() {
            let row = match *frame {
                // Inner frames inherit the category, unless a label has another one.
                ShownFrame::Outermost(frame) => shown(process, frame).in_category(user),
                ShownFrame::Inner(frame) => shown(process, frame),
                ShownFrame::Idle(frame) => shown(process, frame).only_in_category(idle),
                ShownFrame::Truncated => Row::named(TRUNCATED_STACK),
            };
            row.write(strings, out);
        }
        table::end(out);
    }
}

/// The contents of a row.
struct Row<'a> {
    location: Cow<'a, str>,
    line: u32,
    /// Category and subcategory; `None`: those of the frame around it.
    about: Option<(u64, u64)>,
}

impl<'a> Row<'a> {
    fn named(location: impl Into<Cow<'a, str>>) -> Self {
        Self {
            location: location.into(),
            line: 0,
            about: None,
        }
    }

    /// The same row in this category, if it has none yet.
    fn in_category(self, about: Option<(u64, u64)>) -> Self {
        Self {
            about: self.about.or(about),
            ..self
        }
    }

    /// The same row in this category instead of its own, if there is such a category.
    fn only_in_category(self, about: Option<(u64, u64)>) -> Self {
        Self {
            about: about.or(self.about),
            ..self
        }
    }

    fn write<W: Write>(&self, strings: &mut StringTable, out: &mut JsonWriter<W>) {
        let location = strings.intern(&self.location);
        out.begin_array();
        out.u64(u64::from(location.get()));
        out.bool(false);
        out.u64(0);
        out.null();
        out.u64_or_null(Some(u64::from(self.line)).filter(|line| *line > 0));
        out.null();
        out.u64_or_null(self.about.map(|(category, _)| category));
        out.u64_or_null(self.about.map(|(_, subcategory)| subcategory));
        out.end_array();
    }
}

fn shown<'a>(process: &'a GeckoProcess<'_>, frame: Frame) -> Row<'a> {
    match frame {
        Frame::Label(id) => label(process, id),
        frame => code(process, frame),
    }
}

fn label<'a>(process: &'a GeckoProcess<'_>, id: DefinitionId) -> Row<'a> {
    let definitions = &process.model.snapshot.definitions;
    let Some(label) = definitions.label(id) else {
        return Row::named("(unknown label)");
    };
    let about = label_category(&process.model.spec.categories, definitions, label);
    Row {
        location: plain_name(&label.name),
        line: label.line,
        about: Some(about),
    }
}

fn code<'a>(process: &GeckoProcess<'_>, frame: Frame) -> Row<'a> {
    match frame {
        Frame::Code(module, relative) => match process.libs.address(module, relative) {
            Some(address) => Row::named(format!("{address:#x}")),
            None => {
                let module = process.model.snapshot.definitions.module(module);
                let name = module.map_or(UNKNOWN_MODULE, |module| module_name(&module.path));
                Row::named(plain_name(&format!("{name}+{relative:#x}")).into_owned())
            }
        },
        // Viewers would attribute the plain address to the module that was here at another time.
        Frame::Unknown(address) if process.libs.covers(address) => {
            Row::named(format!("{MARK}{address:#x}"))
        }
        Frame::Unknown(address) => Row::named(format!("{address:#x}")),
        Frame::Label(_) => Row::named("(unknown label)"),
    }
}

/// Marks a name so that viewers show it unchanged, and do not parse it as an address or as a
/// function in a file or script.
fn plain_name(name: &str) -> Cow<'_, str> {
    if name.is_empty() {
        return Cow::Borrowed("(unnamed)");
    }
    let is_address = name.starts_with("0x");
    let is_place = ends_as_place(name) || name.contains(" (in ");
    match (is_address, is_place) {
        (false, false) => Cow::Borrowed(name),
        (true, false) => Cow::Owned(format!("{MARK}{name}")),
        (false, true) => Cow::Owned(format!("{name}{MARK}")),
        (true, true) => Cow::Owned(format!("{MARK}{name}{MARK}")),
    }
}

/// Whether a name ends in `:12`, `:12)` or one of these and `[3]`.
fn ends_as_place(name: &str) -> bool {
    let digit = |c: char| c.is_ascii_digit();
    let index = name
        .strip_suffix(']')
        .and_then(|name| name.trim_end_matches(digit).strip_suffix('['));
    let name = index.unwrap_or(name);
    let name = name.strip_suffix(')').unwrap_or(name);
    let before = name.trim_end_matches(digit);
    before.len() < name.len() && before.ends_with(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_viewers_would_parse_are_marked() {
        for name in ["work", "Foo::bar()", "step 12", "a::b12", "list[3]"] {
            assert_eq!(plain_name(name), name);
        }
        for name in [
            "0x10",
            "GET /item:42",
            "f (a.rs:3:1)",
            "f (a.js:3)[1]",
            "f (in libx)",
            "0x1:2",
        ] {
            assert_ne!(plain_name(name), name);
            assert_eq!(plain_name(name).replace(MARK, ""), name);
        }
    }
}
