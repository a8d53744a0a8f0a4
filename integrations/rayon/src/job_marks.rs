//! The markers of jobs: an interval for each job, and the place where the jobs come from.
//!
//! Used by `running_job` and by `context`. A job is a numbered span, so it is in the profile while
//! it runs, also if its process is killed. The flow of a context connects all its jobs with the
//! place where the context was given [`intervals`](crate::JobContext::intervals).

use profiler_core::internal::span_number::{draw_span_number, flow_of};
use profiler_core::marker::schema::{Format, MarkerField, MarkerSchema};
use profiler_core::marker::{MarkerOptions, ProfilerMarker, add_marker};
use serde::Serialize;

use crate::job_site::JobSite;

/// The start or the end of a job.
#[derive(Debug, Serialize)]
struct JobMark {
    /// The number of the job, from the numbers of spans.
    span: u64,
    /// The number of the span that the job was made for; only in the start.
    parent: Option<u64>,
    /// The flow of the context; only in the start.
    flow: Option<u64>,
}

impl ProfilerMarker for JobMark {
    /// Begins as the types of numbered spans do, so that starts and ends are paired by number.
    const TYPE_NAME: &'static str = "Span rayon job";
    const IS_OF_PROFILER: bool = true;

    fn schema() -> MarkerSchema {
        let number = |key, label| MarkerField::new(key, Format::Integer).label(label);
        MarkerSchema::in_chart_and_table(Self::TYPE_NAME)
            .all_labels("{marker.name}")
            .field(number("span", "Job").not_searchable())
            .field(number("parent", "Parent span").not_searchable())
            .key_label_format("flow", "Flow", Format::FlowId)
    }
}

/// The place where jobs come from.
#[derive(Debug, Serialize)]
struct JobsOrigin {
    /// The number of the span that the jobs are made for.
    parent: Option<u64>,
    /// The flow of the context.
    flow: u64,
}

impl ProfilerMarker for JobsOrigin {
    const TYPE_NAME: &'static str = "rayon jobs";
    const IS_OF_PROFILER: bool = true;

    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table(Self::TYPE_NAME)
            .all_labels("{marker.name} (jobs)")
            .field(MarkerField::new("parent", Format::Integer).label("Parent span"))
            .key_label_format("flow", "Flow", Format::FlowId)
    }
}

/// Records the place where the jobs of a context come from, and returns the flow of the context.
/// Called while a session runs.
pub(crate) fn record_origin(site: &JobSite, parent: Option<u64>) -> u64 {
    let flow = flow_of(draw_span_number());
    let origin = JobsOrigin { parent, flow };
    add_marker(site.name, site.category, MarkerOptions::default(), &origin);
    flow
}

/// The interval of a running job; ends when it is dropped.
#[derive(Debug)]
pub(crate) struct JobInterval {
    site: &'static JobSite,
    /// The number of the job.
    pub(crate) number: u64,
}

impl JobInterval {
    /// Records the start of a job. Called while a session runs.
    pub(crate) fn begin(site: &'static JobSite, parent: Option<u64>, flow: Option<u64>) -> Self {
        let number = draw_span_number();
        let start = JobMark {
            span: number,
            parent,
            flow,
        };
        let options = MarkerOptions::interval_start();
        site.intervals.add_typed(site.category, options, &start);
        Self { site, number }
    }
}

impl Drop for JobInterval {
    fn drop(&mut self) {
        if !profiler_core::session::is_active() {
            return;
        }
        let end = JobMark {
            span: self.number,
            parent: None,
            flow: None,
        };
        let options = MarkerOptions::interval_end();
        self.site
            .intervals
            .add_typed(self.site.category, options, &end);
    }
}
