//! Tests of the frames of all processes.

use super::*;
use profiler_symbols::SourceFrame;

fn names(table: &FrameTable, frame: FrameNumber) -> Vec<String> {
    let functions = table.functions_of(frame).iter();
    let name = |number: &FunctionNumber| table.shown(*number).unwrap().name.to_string();
    functions.map(name).collect()
}

fn module(table: &mut FrameTable, path: &str) -> ModuleNumber {
    let module = Module {
        path: path.to_owned(),
        build_id: vec![1],
    };
    ModuleNumber(table.modules.intern(module, MAX_MODULES).unwrap())
}

fn place(functions: &[&str]) -> Place {
    let frame = |name: &&str| SourceFrame {
        function: Some((*name).into()),
        file: None,
        line: 0,
    };
    Place {
        frames: functions.iter().map(frame).collect(),
        function: None,
    }
}

impl FrameTable {
    /// Shows the code at an unknown address as a label with this name.
    pub(crate) fn show_as_label(&mut self, address: u64, name: &str) {
        let label = self.function(name, None, FunctionKind::Label);
        let frame = self.unknown(address);
        self.functions_of[frame.0 as usize] = Box::new([label]);
    }
}

#[test]
fn an_address_is_shown_until_its_names_are_looked_up() {
    let mut table = FrameTable::default();
    let lib = module(&mut table, "/lib/libfoo.so");
    let frame = table.code(lib, 0x1f);
    assert_eq!(names(&table, frame), ["libfoo.so+0x1f"]);
    assert_eq!(table.code(lib, 0x1f), frame);
    assert_eq!(table.pending(), 1);
    assert!(table.take_unnamed(|_| false).is_empty());
    let unnamed = table.take_unnamed(|_| true);
    assert_eq!(
        (unnamed.len(), &unnamed[0].frames),
        (1, &vec![(frame, 0x1f)])
    );
    assert!(
        table.take_unnamed(|_| true).is_empty(),
        "it is asked for twice"
    );
    table.name(lib, frame, &place(&["inlined", "outer"]));
    assert_eq!(names(&table, frame), ["outer", "inlined"]);
    assert_eq!(table.pending(), 0);
}

#[test]
fn code_without_a_name_keeps_its_address() {
    let mut table = FrameTable::default();
    let lib = module(&mut table, "/lib/libfoo.so");
    let frame = table.code(lib, 0x20);
    table.take_unnamed(|_| true);
    table.name(lib, frame, &Place::default());
    assert_eq!(names(&table, frame), ["libfoo.so+0x20"]);
    assert_eq!(table.pending(), 0);
}

#[test]
fn a_path_leads_to_the_same_code_before_and_after_its_names_are_known() {
    let mut table = FrameTable::default();
    let lib = module(&mut table, "/lib/libfoo.so");
    let frames = [table.code(lib, 0x1f), table.code(lib, 0x2f)];
    let path = frames.map(|frame| table.id(table.functions_of(frame)[0]).unwrap());
    let all = |table: &FrameTable| -> Vec<FunctionNumber> {
        let functions = frames.iter().flat_map(|frame| table.functions_of(*frame));
        functions.copied().collect()
    };
    assert_eq!(table.resolve(&path, false).unwrap(), all(&table));
    table.name(lib, frames[1], &place(&["inlined", "outer"]));
    let known = table.resolve(&path, false).unwrap();
    assert_eq!((known.len(), &known), (3, &all(&table)));
    // The path of an inverted tree begins with the inner function.
    let inverted = [path[1], path[0]];
    let mut reversed = all(&table);
    reversed.reverse();
    assert_eq!(table.resolve(&inverted, true).unwrap(), reversed);
    let named: Vec<_> = known
        .iter()
        .map(|number| table.id(*number).unwrap())
        .collect();
    assert_eq!(table.resolve(&named, false).unwrap(), known);
    assert_eq!(table.resolve(&[FunctionId(7)], false), None);
}

#[test]
fn the_id_of_a_function_does_not_depend_on_the_order_in_which_functions_are_found() {
    let ids = |order: [&'static str; 2]| {
        let mut table = FrameTable::default();
        let mut ids = order.map(|path| {
            let lib = module(&mut table, path);
            let frame = table.code(lib, 1);
            table.name(lib, frame, &place(&["main"]));
            let id = table.id(table.functions_of(frame)[0]).unwrap();
            (path, FunctionId::parse(&id.to_string()).unwrap().0)
        });
        ids.sort_unstable();
        ids
    };
    let found = ids(["/a", "/b"]);
    assert_eq!(found, ids(["/b", "/a"]));
    assert_ne!(found[0].1, found[1].1, "two functions of the same name");
}

#[test]
fn functions_of_the_same_name_in_two_files_are_different() {
    let mut table = FrameTable::default();
    let (one, other) = (module(&mut table, "/a"), module(&mut table, "/b"));
    let frames = [table.code(one, 1), table.code(other, 1), table.code(one, 2)];
    for (frame, lib) in frames.into_iter().zip([one, other, one]) {
        table.name(lib, frame, &place(&["main"]));
    }
    let [first, second, third] = frames.map(|frame| table.functions_of(frame).to_vec());
    assert!(first != second && first == third);
}

#[test]
fn the_tables_are_bounded_and_count_what_does_not_fit() {
    let mut table = FrameTable::default();
    let long = "x".repeat(LONGEST_NAME + 10);
    for number in 0..MAX_TEXT / LONGEST_NAME + 50 {
        let name = format!("{number}{long}");
        table.function(&name, None, FunctionKind::Code);
    }
    assert!(table.text <= MAX_TEXT && table.lost() >= 50);
    let mut table = FrameTable::default();
    for address in 0..MAX_FRAMES as u64 + 5 {
        table.unknown(address);
    }
    let last = table.unknown(u64::MAX);
    assert_eq!(names(&table, last), ["(too many functions)"]);
    assert_eq!(table.functions_of.len(), MAX_FRAMES);
}

#[test]
fn a_file_with_a_build_id_of_no_linker_is_refused() {
    let mut table = FrameTable::default();
    assert!(table.module("/a", &[1; LONGEST_BUILD_ID]).is_some());
    assert_eq!(table.module("/a", &[1; LONGEST_BUILD_ID + 1]), None);
}

#[test]
fn cutting_a_long_name_keeps_whole_characters() {
    assert_eq!(start_of("aé", 2), "a");
    assert_eq!(start_of("aé", 3), "aé");
}
