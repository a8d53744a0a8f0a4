//! Tests of profiles.

use std::fmt::Write as _;

use opentelemetry_proto::tonic::profiles::v1development::{Profile, ProfilesDictionary, Sample};

use super::*;

fn at<T>(table: &[T], index: i32) -> &T {
    &table[usize::try_from(index).unwrap()]
}

/// The functions of a stack, the outermost first, with what is known of their places.
fn stack(sample: &Sample, of: &ProfilesDictionary, with_places: bool) -> String {
    let text = |index| at(&of.string_table, index).as_str();
    let mut names = Vec::new();
    for location in &at(&of.stack_table, sample.stack_index).location_indices {
        let location = at(&of.location_table, *location);
        let mapping = at(&of.mapping_table, location.mapping_index);
        let lines = location.lines.iter().map(|line| {
            let function = at(&of.function_table, line.function_index);
            match with_places {
                true => format!(
                    "{} {}:{} (from {})",
                    text(function.name_strindex),
                    text(function.filename_strindex),
                    line.line,
                    function.start_line
                ),
                false => text(function.name_strindex).to_owned(),
            }
        });
        let lines: Vec<String> = lines.collect();
        if with_places {
            let attributes = mapping
                .attribute_indices
                .iter()
                .map(|index| attribute(*index, of));
            let attributes: Vec<String> = attributes.collect();
            let file = text(mapping.filename_strindex);
            names.push(format!(
                "[{file} {attributes:?} {:#x}: {}]",
                location.address,
                lines.join(" in ")
            ));
        } else {
            names.extend(lines);
        }
    }
    names.reverse();
    names.join(";")
}

fn attribute(index: i32, of: &ProfilesDictionary) -> String {
    let attribute = at(&of.attribute_table, index);
    format!(
        "{}={}",
        at(&of.string_table, attribute.key_strindex),
        shown(&attribute.value)
    )
}

fn kind(profile: &Profile, of: &ProfilesDictionary) -> String {
    let of_type = profile.sample_type.unwrap();
    [of_type.type_strindex, of_type.unit_strindex]
        .map(|index| at(&of.string_table, index).as_str())
        .join("/")
}

/// A request as text.
fn text(request: &ExportProfilesServiceRequest) -> String {
    let dictionary = request.dictionary.as_ref().unwrap();
    let mut text = String::new();
    for of_resource in &request.resource_profiles {
        writeln!(text, "{}", resource(&of_resource.resource)).unwrap();
        for profile in of_resource
            .scope_profiles
            .iter()
            .flat_map(|scope| &scope.profiles)
        {
            let start = profile.time_unix_nano - 1_700_000_000_000_000_000;
            let kind = kind(profile, dictionary);
            let id = hex(&profile.profile_id);
            let (ns, period) = (profile.duration_nano, profile.period);
            writeln!(
                text,
                "  {kind} from {start} for {ns} ns, period {period}, {id}"
            )
            .unwrap();
            for sample in &profile.samples {
                let attributes = sample
                    .attribute_indices
                    .iter()
                    .map(|index| attribute(*index, dictionary));
                let attributes: Vec<String> = attributes.collect();
                let link = hex(&at(&dictionary.link_table, sample.link_index).span_id);
                let stack = stack(sample, dictionary, true);
                writeln!(
                    text,
                    "    {:?} {stack} {attributes:?} {link}",
                    sample.values
                )
                .unwrap();
            }
        }
    }
    text
}

/// The sums of a type of values, by process, thread and functions.
pub(super) fn sums(request: &ExportProfilesServiceRequest, wanted: &str) -> BTreeMap<String, i64> {
    let dictionary = request.dictionary.as_ref().unwrap();
    let mut sums = BTreeMap::new();
    for of_resource in &request.resource_profiles {
        let process = attributes(&of_resource.resource.as_ref().unwrap().attributes);
        let process = process["process.executable.name"].as_str().unwrap();
        for profile in of_resource
            .scope_profiles
            .iter()
            .flat_map(|scope| &scope.profiles)
        {
            for sample in profile
                .samples
                .iter()
                .filter(|_| kind(profile, dictionary) == wanted)
            {
                let thread = attribute(sample.attribute_indices[1], dictionary);
                let thread = thread
                    .strip_prefix("thread.name=")
                    .unwrap()
                    .trim_matches('"');
                let key = format!("{process};{thread};{}", stack(sample, dictionary, false));
                *sums.entry(key).or_default() += sample.values[0];
            }
        }
    }
    sums
}

#[test]
fn a_whole_request_of_profiles() {
    insta::assert_snapshot!(text(&profiles(&fixture::profile())));
}

/// The times of folded stacks in microseconds.
fn folded(profile: &Value) -> BTreeMap<String, i64> {
    let (directory, _) = exported(profile, Target::Folded, TimeKind::Wall);
    let lines = std::fs::read_to_string(directory.path().join("out")).unwrap();
    let row = |line: &str| {
        let (stack, us) = line.rsplit_once(' ').unwrap();
        (stack.to_owned(), us.parse().unwrap())
    };
    lines.lines().map(row).collect()
}

#[test]
fn the_sums_of_samples_are_those_of_folded_stacks() {
    for profile in [
        fixture::profile(),
        crate::tests::fixture::processed(),
        crate::tests::fixture::gecko(),
    ] {
        let request = profiles(&profile);
        pyroscope::check(&request);
        let in_us = sums(&request, "wall/nanoseconds").into_iter();
        let in_us: BTreeMap<_, _> = in_us
            .map(|(stack, ns)| (stack, (ns + 500) / 1000))
            .collect();
        // Folded stacks carry fractions of microseconds from line to line.
        let folded = folded(&profile);
        assert!(in_us.keys().eq(folded.keys()), "{in_us:?} {folded:?}");
        let mut both = in_us.values().zip(folded.values());
        assert!(
            both.all(|(one, other)| (one - other).abs() <= 1),
            "{in_us:?} {folded:?}"
        );
        let cpu = sums(&request, "cpu/nanoseconds");
        let expected = crate::tests::fixture::SAMPLES as i64 * 8 / 10 - 1;
        if profile["threads"][0]["samples"]["length"] == 1000 {
            assert_eq!(
                cpu.values().sum::<i64>(),
                expected * 1_000_000,
                "the measured times"
            );
        }
    }
}

#[test]
fn a_sample_is_linked_with_the_span_that_its_thread_was_in() {
    let request = profiles(&fixture::profile());
    let spans = super::traces::spans(&traces(&fixture::profile()));
    let dictionary = request.dictionary.as_ref().unwrap();
    let scopes = request
        .resource_profiles
        .iter()
        .flat_map(|resource| &resource.scope_profiles);
    let all = scopes
        .flat_map(|scope| &scope.profiles)
        .filter(|profile| kind(profile, dictionary).starts_with("wall"));
    let mut seen = BTreeMap::new();
    for sample in all.flat_map(|profile| &profile.samples) {
        let link = at(&dictionary.link_table, sample.link_index);
        let span = spans.values().find(|span| span.span_id == link.span_id);
        assert!(span.is_none_or(|span| span.trace_id == link.trace_id));
        let name = span.map_or("-", |span| span.name.as_str()).to_owned();
        let groups = sample
            .attribute_indices
            .iter()
            .skip(2)
            .map(|index| attribute(*index, dictionary));
        let key = (
            stack(sample, dictionary, false),
            name,
            groups.collect::<String>(),
        );
        *seen.entry(key).or_insert(0) += sample.values[0] / 1_000_000;
    }
    let row = |stack: &str, span: &str, group: &str| {
        (stack.to_owned(), span.to_owned(), group.to_owned())
    };
    let group = "group=\"tenants\"";
    let expected = [
        (row("(program)", "-", ""), 1),
        (row("main", "-", ""), 1 + 2 + 1),
        (row("main;handle", "handle", ""), 1),
        (row("main;handle", "batch", group), 1),
        (row("main;handle;ask;parse", "batch", group), 2),
        (row("main;handle;ask;parse", "phase", group), 1),
        (row("main;answer", "-", ""), 1),
        (row("main;answer", "answer", ""), 2),
        (row("main;answer;draw", "draw", ""), 1),
    ];
    assert_eq!(seen, BTreeMap::from(expected));
}

#[test]
fn functions_inlined_at_an_address_are_one_location() {
    let request = profiles(&fixture::profile());
    let dictionary = request.dictionary.as_ref().unwrap();
    let names =
        |location: &opentelemetry_proto::tonic::profiles::v1development::Location| -> Vec<String> {
            let functions = location
                .lines
                .iter()
                .map(|line| at(&dictionary.function_table, line.function_index));
            functions
                .map(|function| at(&dictionary.string_table, function.name_strindex).clone())
                .collect()
        };
    let inlined: Vec<_> = dictionary
        .location_table
        .iter()
        .filter(|location| location.lines.len() > 1)
        .collect();
    assert_eq!(inlined.len(), 1);
    assert_eq!(names(inlined[0]), ["parse", "ask"], "the innermost first");
}
