//! Bodies in the format of pprof, one for each process, for engines that take no OTLP profiles.
//!
//! Called by [`super::encode`]. The labels of a body tell its process apart from others; they are
//! few, because engines keep a series for each set of labels. Threads and groups are labels of
//! samples.

use super::ExportError;
use super::bodies::{BodyKind, BodySink, EncodedBody, PprofSeries};
use super::otlp::ProcessKey;
use super::pprof::{Profile, group_sums};
use super::recording::{Recording, Sink, Thread, Totals};
use profiler_reader::{Meta, Survey};

/// Encodes the samples of all processes. A body has at most about `most` bytes.
pub(super) fn encode(
    recording: &Recording,
    most: usize,
    sink: &mut dyn BodySink,
) -> Result<Totals, ExportError> {
    let survey = recording.survey();
    let mut bodies = PprofBodies {
        sink,
        most: most - most / 8,
        profile: Profile::new(Vec::new(), survey),
        process: None,
    };
    let totals = recording.threads(&mut bodies)?;
    bodies.end(survey)?;
    Ok(totals)
}

struct PprofBodies<'s> {
    sink: &'s mut dyn BodySink,
    most: usize,
    profile: Profile<Vec<u8>>,
    /// The process of the profile, with its series.
    process: Option<(ProcessKey, PprofSeries)>,
}

impl Sink for PprofBodies<'_> {
    const WITH_MARKERS: bool = true;

    fn thread(&mut self, thread: &Thread<'_>, survey: &Survey) -> Result<(), ExportError> {
        if self
            .process
            .as_ref()
            .is_none_or(|(process, _)| !process.is_of(thread))
        {
            self.end(survey)?;
            self.process = Some((ProcessKey::of(thread), series_of(thread, &survey.meta)));
        }
        let all = group_sums(thread, self.profile.vocabulary());
        let mut left = all.as_slice();
        while !left.is_empty() {
            let written = self.profile.samples(thread, left, self.most)?;
            left = left.get(written..).unwrap_or_default();
            if !left.is_empty() {
                let process = self.process.clone();
                self.end(survey)?;
                self.process = process;
            }
        }
        Ok(())
    }
}

impl PprofBodies<'_> {
    /// Passes on the profile of the process.
    fn end(&mut self, survey: &Survey) -> Result<(), ExportError> {
        let next = Profile::new(Vec::new(), survey);
        let profile = std::mem::replace(&mut self.profile, next);
        let Some((_, series)) = self.process.take().filter(|_| !profile.is_empty()) else {
            return Ok(());
        };
        let [from_ns, until_ns] = profile.unix_range(survey);
        let bytes = profile.finish(survey)?;
        self.sink.body(EncodedBody {
            kind: BodyKind::Pprof(PprofSeries {
                from_ns,
                until_ns,
                ..series
            }),
            bytes: &bytes,
        })
    }
}

/// The series of a process, without the time that it covers.
fn series_of(thread: &Thread<'_>, meta: &Meta) -> PprofSeries {
    let service = meta.product.as_deref().filter(|name| !name.is_empty());
    let mut labels = vec![("process", thread.process.to_owned())];
    if let Some(host) = super::otlp::host(thread.pid, meta) {
        labels.push(("host", host.to_owned()));
    }
    if let Some(version) = &meta.service_version {
        labels.push(("service_version", version.clone()));
    }
    PprofSeries {
        service: service.unwrap_or(thread.process).to_owned(),
        labels,
        ..PprofSeries::default()
    }
}
