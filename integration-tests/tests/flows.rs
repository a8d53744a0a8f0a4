//! Tests of flows between processes: the parent begins one and sends it to a child, which passes
//! and ends it.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use integration_tests::helper_process::HelperProcess;
use integration_tests::own_process;
use integration_tests::profile::{Mark, Profile};
use integration_tests::session;
use profiler_core::flow;
use profiler_core::flow::Flow;
use profiler_export::{ExportOptions, Target, export};

const CHILD: &str = env!("CARGO_BIN_EXE_child");

/// Name, type and flow of the markers of a process that belong to flows.
fn flows(profile: &Profile, process: &str) -> anyhow::Result<Vec<[String; 3]>> {
    let strings = &profile.json["shared"]["stringArray"];
    let flow = |mark: &Mark| {
        let row = usize::try_from(mark.data["flow"].as_u64()?).ok()?;
        let texts = [mark.data["type"].as_str()?, strings[row].as_str()?];
        Some([mark.name.clone(), texts[0].to_owned(), texts[1].to_owned()])
    };
    let threads = &profile.process(process)?.threads;
    let marks = threads.iter().flat_map(|thread| &thread.marks);
    Ok(marks.filter_map(flow).collect())
}

/// The number of events of a trace for Perfetto in which a flow goes on, and in which it ends: the
/// fields 47 and 48 of an event, numbers of 64 bits.
fn flow_events(trace: &Path, flow: Flow) -> anyhow::Result<[usize; 2]> {
    let bytes = fs::read(trace)?;
    let number = flow.number().get().to_le_bytes();
    Ok([[0xf9, 0x02], [0x81, 0x03]].map(|tag| {
        let field = [&tag[..], &number].concat();
        bytes
            .windows(field.len())
            .filter(|place| *place == field)
            .count()
    }))
}

#[test]
fn a_flow_leads_from_the_parent_to_the_child_in_the_profile_and_in_perfetto() -> anyhow::Result<()>
{
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut child = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    let [sent_as_text, sent_as_header] = [Flow::new(), Flow::new()];
    flow!(begin sent_as_text, "request sent");
    child.ask(&format!("pass-flow {sent_as_text}"))?;
    flow!(begin sent_as_header, "request sent");
    child.ask(&format!("pass-flow {}", sent_as_header.to_traceparent()))?;

    let (report, profile) = session.capture()?;
    let row = |name: &str, of: &str, flow: Flow| [name.into(), of.into(), flow.to_string()];
    let both = [sent_as_text, sent_as_header];
    let expected = both.map(|flow| row("request sent", "FlowBegin", flow));
    assert_eq!(flows(&profile, "parent")?, expected);
    let of_child = |flow| {
        [
            row("request received", "FlowStep", flow),
            row("request answered", "FlowEnd", flow),
        ]
    };
    let expected = both.map(of_child).concat();
    assert_eq!(flows(&profile, "child")?, expected);

    let trace = session.path("flows.pftrace");
    export(&report.path, &trace, &ExportOptions::to(Target::Perfetto))?;
    for flow in both {
        assert_eq!(flow_events(&trace, flow)?, [2, 1], "{flow}");
    }
    Ok(())
}

#[test]
fn a_text_that_is_no_flow_is_refused_by_the_child() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut child = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    let refused = child.ask("pass-flow 0000000000000000");
    let error = refused.err().context("zero was a flow")?;
    ensure!(error.to_string().contains("not a flow"), "{error:#}");
    Ok(())
}
