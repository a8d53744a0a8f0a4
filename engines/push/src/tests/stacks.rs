//! Tests of the rows of stacks, each of which a store gets once.

use profiler_export::clickhouse::FleetTable;

use super::*;

/// Each line of a batch is a body: the name of its table, and its rows.
struct StackRowsEncoder;

impl BatchEncoder for StackRowsEncoder {
    fn encode(
        &self,
        _: PushEngine,
        batch: &BatchToSend,
        bodies: &mut dyn BodySink,
    ) -> Result<(), ExportError> {
        let text = fs::read_to_string(&batch.path)?;
        for line in text.lines() {
            let (table, rows) = line.split_once(' ').unwrap();
            let table = match table {
                "stacks" => FleetTable::Stacks,
                _ => FleetTable::Samples,
            };
            let kind = BodyKind::ClickHouseRows { table };
            let rows: String = rows.split(' ').map(|row| format!("{row}\n")).collect();
            let bytes = rows.as_bytes();
            bodies.body(EncodedBody { kind, bytes })?;
        }
        Ok(())
    }
}

/// Sends `batches` to a store that first performs `acts`. Returns, for each accepted body, the last
/// digit of its key, which is the number of the body, and its rows.
fn send(acts: &[Act], batches: &[&[&str]]) -> Vec<(char, String)> {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::new(acts);
    let address = format!("clickhouse+http://{}", endpoint.address);
    let destination = PushDestination::parse(&address).unwrap();
    let spool = open_to(&directory, &destination);
    batches.iter().for_each(|bodies| add(&spool, bodies));
    let client = HttpClient::new(LONG);
    RunningSender::start_with(&spool, destination, client, Arc::new(StackRowsEncoder)).finish();
    let accepted = endpoint.received().into_iter();
    let accepted = accepted.filter(|received| received.was_accepted);
    let shown = accepted.map(|Received { key, body, .. }| {
        let body = body.replace('\n', " ");
        (key.chars().last().unwrap(), body.trim_end().to_owned())
    });
    shown.collect()
}

fn expected(bodies: &[(char, &str)]) -> Vec<(char, String)> {
    let owned = bodies.iter().map(|(key, rows)| (*key, (*rows).to_owned()));
    owned.collect()
}

#[test]
fn a_store_gets_each_row_of_stacks_once_and_all_rows_of_samples() {
    let batches: &[&[&str]] = &[
        &["stacks a b", "samples 1"],
        &["stacks b a", "samples 1"],
        &["stacks b c", "stacks a d", "samples 2"],
    ];
    let got = send(&[], batches);
    let all = [
        ('0', "a b"),
        ('1', "1"),
        // The body of stacks has no new rows and is not sent. Body numbers do not change.
        ('1', "1"),
        ('0', "c"),
        ('1', "d"),
        ('2', "2"),
    ];
    assert_eq!(got, expected(&all));
}

#[test]
fn all_rows_of_stacks_are_sent_again_after_an_outage_or_a_refusal() {
    let batches: &[&[&str]] = &[&["stacks a"], &["stacks a b"], &["stacks b c"]];
    let got = send(&[Act::Answer(200), Act::BreakOff], batches);
    let all = [('0', "a"), ('0', "a b"), ('0', "c")];
    assert_eq!(got, expected(&all));
    let got = send(&[Act::Answer(200), Act::Answer(400)], batches);
    assert_eq!(got, expected(&[('0', "a"), ('0', "b c")]));
}

#[test]
fn rows_of_stacks_that_a_store_has_not_accepted_are_sent_again() {
    let batches: &[&[&str]] = &[&["stacks a", "stacks b"], &["stacks a b c"]];
    // It refuses the first body, and accepts the second one at the second attempt.
    let got = send(&[Act::Answer(400), Act::AskAgain(503)], batches);
    assert_eq!(got, expected(&[('1', "b"), ('0', "a c")]));
}
