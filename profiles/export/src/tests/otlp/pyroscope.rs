//! What Pyroscope demands of a request of profiles. It refuses a whole request, or drops samples
//! without a word, if one of these rules is broken.

use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::profiles::v1development::{Profile, ProfilesDictionary, Sample};

use super::*;

/// Panics if the request breaks a rule.
pub(super) fn check(request: &ExportProfilesServiceRequest) {
    let dictionary = request.dictionary.as_ref().expect("a dictionary");
    check_dictionary(dictionary);
    let mut kinds_of_services = std::collections::BTreeSet::new();
    for of_resource in &request.resource_profiles {
        let attributes = &of_resource
            .resource
            .as_ref()
            .expect("a resource")
            .attributes;
        let service = attributes.iter().find(|pair| pair.key == "service.name");
        let service = service.map(|pair| shown(&pair.value));
        let is_named = service
            .as_ref()
            .is_some_and(|name| name.as_str().is_some_and(|name| !name.is_empty()));
        assert!(is_named, "a service name that is a text");
        for profile in of_resource
            .scope_profiles
            .iter()
            .flat_map(|scope| &scope.profiles)
        {
            let kind = check_profile(profile, dictionary);
            kinds_of_services.insert((service.clone().unwrap().to_string(), kind));
        }
    }
    for (service, kind) in &kinds_of_services {
        // This kind is multiplied by its period and becomes processor time.
        let doubled = "samples:count:cpu:nanoseconds";
        let cpu = (
            service.clone(),
            "cpu:nanoseconds:cpu:nanoseconds".to_owned(),
        );
        assert!(
            kind != doubled || !kinds_of_services.contains(&cpu),
            "processor time counts twice"
        );
    }
}

fn index<T>(table: &[T], at: i32) -> &T {
    table
        .get(usize::try_from(at).unwrap())
        .unwrap_or_else(|| panic!("no entry {at}"))
}

fn check_dictionary(of: &ProfilesDictionary) {
    assert_eq!(of.mapping_table[0], Default::default());
    assert_eq!(of.location_table[0], Default::default());
    assert_eq!(of.function_table[0], Default::default());
    assert_eq!(of.link_table[0], Default::default());
    assert_eq!(of.attribute_table[0], Default::default());
    assert_eq!(of.stack_table[0], Default::default());
    assert_eq!(of.string_table[0], "");
    for mapping in &of.mapping_table {
        index(&of.string_table, mapping.filename_strindex);
        for at in &mapping.attribute_indices {
            index(&of.attribute_table, *at);
        }
    }
    for location in &of.location_table {
        index(&of.mapping_table, location.mapping_index);
        for line in &location.lines {
            index(&of.function_table, line.function_index);
        }
        for at in &location.attribute_indices {
            index(&of.attribute_table, *at);
        }
    }
    for function in &of.function_table {
        for text in [
            function.name_strindex,
            function.system_name_strindex,
            function.filename_strindex,
        ] {
            index(&of.string_table, text);
        }
    }
    for attribute in &of.attribute_table {
        index(&of.string_table, attribute.key_strindex);
        index(&of.string_table, attribute.unit_strindex);
    }
    for stack in &of.stack_table {
        for at in &stack.location_indices {
            index(&of.location_table, *at);
        }
    }
    for link in of.link_table.iter().skip(1) {
        assert_eq!((link.trace_id.len(), link.span_id.len()), (16, 8));
        assert!(
            link.trace_id.iter().any(|byte| *byte > 0) && link.span_id.iter().any(|byte| *byte > 0)
        );
    }
}

/// Returns the types of values and of the period.
fn check_profile(profile: &Profile, dictionary: &ProfilesDictionary) -> String {
    let types = [&profile.sample_type, &profile.period_type].map(|kind| kind.expect("a type"));
    assert!(profile.period != 0, "a period");
    assert!(
        profile.time_unix_nano != 0 && profile.duration_nano != 0,
        "times, or else the present"
    );
    assert_eq!(profile.profile_id.len(), 16);
    assert!(!profile.samples.is_empty());
    profile
        .samples
        .iter()
        .for_each(|sample| check_sample(sample, dictionary));
    let names = types.map(|kind| {
        let text = |at| index(&dictionary.string_table, at).as_str();
        format!("{}:{}", text(kind.type_strindex), text(kind.unit_strindex))
    });
    names.join(":")
}

fn check_sample(sample: &Sample, dictionary: &ProfilesDictionary) {
    let counts = (sample.values.len(), sample.timestamps_unix_nano.len());
    assert!(
        counts == (1, 0) || counts.0 == 0 && counts.1 > 0,
        "one value, or times without values"
    );
    assert!(sample.values.iter().all(|value| *value >= 0));
    index(&dictionary.link_table, sample.link_index);
    let stack = index(&dictionary.stack_table, sample.stack_index);
    assert!(
        !stack.location_indices.is_empty(),
        "a sample without a place is dropped"
    );
    for at in &sample.attribute_indices {
        let attribute = index(&dictionary.attribute_table, *at);
        assert!(!index(&dictionary.string_table, attribute.key_strindex).is_empty());
        let value = attribute
            .value
            .as_ref()
            .and_then(|value| value.value.as_ref());
        assert!(matches!(
            value,
            Some(Any::StringValue(_) | Any::IntValue(_))
        ));
    }
}
