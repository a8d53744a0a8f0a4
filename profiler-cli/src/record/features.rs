//! `--features`: parses the feature names that a profile shows, and `default`.

use profiler_parent::SessionBuilder;
use profiler_parent::core::session::Features;

/// The name that stands for all features that are recorded without the option.
const DEFAULT: &str = "default";

/// The feature of this name, or the features of `default`.
pub(super) fn parse(name: &str) -> Result<Features, String> {
    let name = name.trim();
    if name == DEFAULT {
        return Ok(SessionBuilder::DEFAULT_FEATURES);
    }
    Features::from_name(name).ok_or_else(|| format!("the features are {DEFAULT}, {}", names()))
}

/// The features of a list; `None` if the list is empty.
pub(super) fn union(list: &[Features]) -> Option<Features> {
    list.iter().copied().reduce(Features::with)
}

pub(super) fn help() -> String {
    let default: Vec<_> = SessionBuilder::DEFAULT_FEATURES.names().collect();
    format!(
        "What to record besides markers, separated by commas: {}; \"{DEFAULT}\" stands for {}, so \
         \"{DEFAULT},nativeallocations\" adds to these [default: {DEFAULT}]",
        names(),
        default.join(", ")
    )
}

fn names() -> String {
    let all = Features::all().flat_map(Features::names);
    all.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_a_feature_is_accepted() {
        for feature in Features::all() {
            assert!(feature.names().all(|name| parse(name) == Ok(feature)));
        }
        assert_eq!(parse("memory"), Ok(Features::MEMORY));
        let error = parse("everything").unwrap_err();
        assert!(error.contains("stackwalk") && error.contains("default"));
    }

    #[test]
    fn further_features_are_added_to_the_default_ones() {
        let list = ["default", " nativeallocations"].map(|name| parse(name).unwrap());
        let wanted = SessionBuilder::DEFAULT_FEATURES.with(Features::NATIVE_ALLOCATIONS);
        assert_eq!(union(&list), Some(wanted));
        assert_eq!(union(&[Features::MEMORY]), Some(Features::MEMORY));
        assert_eq!(union(&[]), None);
    }
}
