//! Tests of the hygiene of the recording macros: they capture no name of their callers.
//!
//! Statics inside a macro are visible to the macro's arguments, so the macros give them unusual
//! names.

mod statics {
    //! The arguments have the names that statics of the macros had in earlier versions.

    use profiler_core::flow::Flow;
    use profiler_core::marker::{
        Category, MarkerOptions, SpanOptions, Text, schema::CategoryColor,
    };
    use profiler_core::{blocking, flow, group, label, marker, scope, span, text_marker};

    const SITE: &str = "site";
    const LABEL: &str = "label";
    const GROUP: &str = "plugin:group";
    static CATEGORY: Category = Category::new("Own", CategoryColor::Blue, &[]);

    #[label::function(&CATEGORY)]
    fn labelled() -> &'static str {
        LABEL
    }

    #[test]
    fn arguments_may_have_the_names_of_statics_inside_macros() {
        marker!(SITE);
        marker!(
            SITE,
            &CATEGORY,
            MarkerOptions::default(),
            &Text { name: SITE }
        );
        text_marker!(SITE, &CATEGORY, MarkerOptions::default(), SITE);
        let _scope = scope!(SITE, &CATEGORY, SITE);
        let _span = span!(
            SITE,
            &CATEGORY,
            SpanOptions::default().label(SITE).group(GROUP)
        );
        marker!(SITE, category = &CATEGORY, site = SITE);
        let _fields = scope!(SITE, category = &CATEGORY, number = SITE, draft = SITE);
        let _span = span!(SITE, category = &CATEGORY, number = SITE, draft = SITE);
        let flow = Flow::new();
        flow!(begin flow, SITE, category = &CATEGORY, site = SITE);
        flow!(end flow, SITE, category = &CATEGORY);
        let _label = label!(LABEL, &CATEGORY);
        let _entered = group!(GROUP).enter();
        let _tenant = group!(Tenant, GROUP).enter();
        let _waits = blocking!(SITE);
        assert_eq!(labelled(), LABEL);
    }
}

mod prelude {
    //! The caller has no prelude, and its own names hide those of the prelude.

    #![no_implicit_prelude]

    #[allow(dead_code, non_camel_case_types)]
    mod names {
        pub(super) struct Option;
        pub(super) struct Some;
        pub(super) struct None;
        pub(super) mod core {}
        pub(super) mod std {}
    }

    #[allow(unused_imports)]
    use names::*;

    #[::profiler_core::label::function]
    fn labelled() {}

    #[::core::prelude::v1::test]
    fn macros_need_no_prelude_and_no_import() {
        ::profiler_core::marker!("marker");
        let options =
            <::profiler_core::marker::MarkerOptions as ::core::default::Default>::default();
        ::profiler_core::text_marker!(
            "text",
            &::profiler_core::marker::category::IO,
            options,
            "text"
        );
        let _scope = ::profiler_core::scope!("scope");
        let _text =
            ::profiler_core::scope!("scope", &::profiler_core::marker::category::IO, "text");
        let _span = ::profiler_core::span!("span");
        let request = ::profiler_core::flow::Flow::new();
        ::profiler_core::flow!(begin request);
        ::profiler_core::flow!(end request, "flow", number = 1);
        let _label = ::profiler_core::label!("label");
        let _entered = ::profiler_core::group!("component").enter();
        let _waits = ::profiler_core::blocking!("disk");
        labelled();
    }
}

mod renamed {
    //! The caller has `profiler-core` under another name.

    use profiler_core as tracing_of_ours;
    use tracing_of_ours::{label, marker, scope};

    #[label::function(crate = tracing_of_ours)]
    fn labelled() {}

    #[label::function(crate = tracing_of_ours, &tracing_of_ours::marker::category::IO)]
    fn labelled_with_a_category() {}

    #[test]
    fn the_crate_may_have_another_name() {
        marker!("marker");
        let _scope = scope!("scope");
        labelled();
        labelled_with_a_category();
    }
}
