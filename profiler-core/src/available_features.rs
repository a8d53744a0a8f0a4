//! Which features this build records on this system, and why not the others.
//!
//! Called by applications, before they start a session. Invariant: starts nothing, and keeps
//! nothing open.

use crate::params::Features;
use crate::sampler;
use crate::sys;

/// Why a session cannot record a feature in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum FeatureUnavailable {
    /// The macros are compiled to nothing.
    #[error("recording is not compiled into this program: the feature `enabled` is off")]
    NotCompiled,
    /// There are no samples on this system: only Linux on x86-64 and aarch64 has them.
    #[error("this system has no samples")]
    NoSamples,
    /// The system does not tell this process the value, for example because `/proc` is missing.
    #[error("the system does not tell this process the value")]
    NotTold,
    /// A newer version of the profiler may know it.
    #[error("this version of the profiler does not know it")]
    Unknown,
}

impl Features {
    /// The features that this build can record on this system. A session records the others of its
    /// features without an error and without data: [`Self::why_unavailable`] tells the reason.
    ///
    /// [`Self::NATIVE_ALLOCATIONS`] also needs [`crate::alloc::ProfilingAllocator`] in the program.
    /// Whether the samples are as frequent as a session asks for depends on its
    /// [`SampleSource`](crate::session::SampleSource).
    ///
    /// ```
    /// use profiler_core::session::Features;
    ///
    /// let wanted = Features::STACK_WALK.with(Features::MEMORY);
    /// if let Some(why) = wanted.why_unavailable() {
    ///     println!("the profile lacks something: {why}");
    /// }
    /// let names: Vec<_> = Features::available().names().collect();
    /// println!("this system records {}", names.join(", "));
    /// ```
    pub fn available() -> Self {
        let all = Self::all().filter(|feature| feature.why_unavailable().is_none());
        all.fold(Self::NONE, Self::with)
    }

    /// Why this process cannot record these features; `None` if it can. Of several reasons, the one
    /// for the first feature in the order of [`Self::all`].
    pub fn why_unavailable(self) -> Option<FeatureUnavailable> {
        let known = Self::all().fold(Self::NONE, Self::with);
        let mut wanted = Self::all().filter(|feature| self.contains(*feature));
        wanted
            .find_map(why_not)
            .or_else(|| (!known.contains(self)).then_some(FeatureUnavailable::Unknown))
    }
}

/// Why this process cannot record one feature.
fn why_not(feature: Features) -> Option<FeatureUnavailable> {
    let is_compiled = cfg!(feature = "enabled");
    let told = |value: bool| (!value).then_some(FeatureUnavailable::NotTold);
    match feature {
        Features::NO_SAMPLING => None,
        Features::MARKERS_ALL_THREADS | Features::NATIVE_ALLOCATIONS if !is_compiled => {
            Some(FeatureUnavailable::NotCompiled)
        }
        Features::MARKERS_ALL_THREADS => None,
        _ if !sampler::IS_SUPPORTED => Some(FeatureUnavailable::NoSamples),
        Features::PROCESS_CPU => told(sys::process_cpu_ns().is_some()),
        Features::MEMORY => told(sys::ResidentMemory::open().is_some()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_is_available_or_has_a_reason() {
        let available = Features::available();
        for feature in Features::all() {
            let why = feature.why_unavailable();
            assert_eq!(available.contains(feature), why.is_none(), "{feature:?}");
        }
        assert_eq!(available.why_unavailable(), None);
        assert_eq!(Features::NONE.why_unavailable(), None);
        let unknown = available.with(Features::from_bits(1 << 63));
        assert_eq!(unknown.why_unavailable(), Some(FeatureUnavailable::Unknown));
    }

    #[test]
    fn samples_are_available_only_where_there_is_a_sampler() {
        let samples = [Features::STACK_WALK, Features::CPU, Features::MEMORY];
        for feature in samples {
            let expected = (!sampler::IS_SUPPORTED).then_some(FeatureUnavailable::NoSamples);
            assert_eq!(feature.why_unavailable(), expected, "{feature:?}");
        }
        assert_eq!(Features::NO_SAMPLING.why_unavailable(), None);
        let markers = Features::MARKERS_ALL_THREADS.why_unavailable();
        assert_eq!(markers.is_none(), cfg!(feature = "enabled"));
    }
}
