//! A kind of jobs: the name of their label and of their intervals.
//!
//! Applications make one as a static with [`job_site!`](crate::job_site!), and name a
//! [`JobContext`](crate::JobContext) after it. Invariant: a site lives as long as the program, so
//! the number of definitions is the number of places in the source.

use profiler_core::label::Label;
use profiler_core::marker::{Category, MarkerSite};

/// The name and the category of jobs. Made by [`job_site!`](crate::job_site!).
#[derive(Debug)]
pub struct JobSite {
    pub(crate) name: &'static str,
    pub(crate) category: &'static Category,
    /// The frame that a job adds to stacks.
    pub(crate) label: Label,
    /// The intervals of the jobs.
    pub(crate) intervals: MarkerSite,
}

impl JobSite {
    /// A site with this name, at this source location. Not for direct use.
    #[doc(hidden)]
    pub const fn new(
        name: &'static str,
        category: &'static Category,
        file: &'static str,
        line: u32,
    ) -> Self {
        Self {
            name,
            category,
            label: Label::new(name, file, line),
            intervals: MarkerSite::new(name),
        }
    }
}

/// Names jobs: `job_site!(name)`, `job_site!(name, category)`. The name is a literal or constant,
/// the category a `&'static` [`Category`].
///
/// Returns a `&'static` [`JobSite`] for [`JobContext::named`](crate::JobContext::named).
///
/// ```
/// use profiler_rayon::{JobContext, job_site};
///
/// let context = JobContext::current().named(job_site!("resize"));
/// # drop(context);
/// ```
#[macro_export]
macro_rules! job_site {
    ($name:expr $(,)?) => {
        $crate::job_site!($name, &$crate::__core::marker::category::OTHER)
    };
    ($name:expr, $category:expr $(,)?) => {{
        static __PROFILER_JOB_SITE: $crate::JobSite =
            $crate::JobSite::new($name, $category, ::core::file!(), ::core::line!());
        &__PROFILER_JOB_SITE
    }};
}
