// Opens a profile with the real viewer's loader and compares it with what was recorded.
//
//   node check.mjs PROFILE EXPECT.json       PROFILE may be .json or .json.gz
//
// Prints one line per check, `ok ...` or `FAIL ...`. Exit code 0: all passed; 1: a check failed, or
// the viewer refused the profile; 2: the check could not run (no viewer, bad EXPECT, no file).
//
// The loader is the package `@firefox-devtools/profiler-cli`: the front-end's own code, without its
// pages. It loads a profile into a daemon, which answers questions as JSON. Here the daemon lives
// in a temporary directory, makes no network request, and is stopped in every case.
//
// EXPECT holds any of the keys below. An unknown key is an error, so that a misspelt expectation
// cannot pass. A COUNT is a number, or {"min": a, "max": b}, where one of the two is optional.
//
//   processes      [{name, pid?, count?, threads?, markers?, samples?, complete?}], all of them
//                  unless `moreProcesses` is true
//                    name      the name that the viewer shows; pid selects one of several
//                              processes with that name
//                    count     number of processes with this name and pid (1); the other numbers
//                              are sums over them
//                    threads   COUNT, or the list of thread names (any order), as the viewer has
//                              them: the main thread is "GeckoMain"
//                    markers   {marker name: COUNT}
//                    samples   COUNT of samples
//                    selfSamples, totalSamples  {function: COUNT}: samples in the function itself,
//                              or in it and the functions that it calls, including idle samples. A
//                              function of a library without symbols is "library!0x7f00"; a missing
//                              function has 0
//                    busySelfSamples, busyTotalSamples  the same without the samples that the
//                              viewer leaves out when idle samples are not included
//                    allocatedBytes  {function: COUNT}: bytes that the function itself allocated
//                    cpuMs     COUNT of whole milliseconds of processor time
//                    complete  true: there are no markers except the listed ones
//   moreProcesses  true: there may be other processes
//   threads        [{process, pid?, name, markers?, samples?, ..., complete?}]: the same for one
//                  thread
//   markerLabels   [{process?, marker, label, kind?, count?, search?}]: the rendered text of a
//                  marker; kind is "table" (default), "chart" or "tooltip"; count: how many (at
//                  least 1); search: the viewer's search ("path:b.txt"), which is faster when
//                  there are more than about ten thousand markers with this name
//   markerFields   [{process?, marker, field, value, count?, search?}]: a row of the tooltip, by
//                  its label
//   schemas        [NAME or {name, fields: [label, ...]}]: there are markers of this type and the
//                  viewer knows the type; fields: the labels of the rows that it shows, in order
//   counters       [{process, name, label?, unit?, graphType?, samples?, busyRanges?, sum?}]
//                    busyRanges  COUNT of the ranges of time in the viewer's graph of 50 ranges in
//                              which the counter changed
//                    sum       COUNT: the sum over all ranges, rounded
//   counterCount   COUNT of all counters
//   opensOn        {process, thread, marker, marginMs}: the thread is selected at first, it has one
//                  such marker, and the shown range is the time of that marker and marginMs before
//                  and after it
//   meta           {key: value}: the viewer's information on the whole profile (`profile meta`)
//
// These checks always run: the profile loads; every thread's markers and samples can be shown; no
// marker lies outside the shown range or has no name; every payload type has a schema (in large
// threads only the first markers of each name are checked); no function has the name of a symbol
// that is data; the viewer's log contains no complaint.
//
// The loader shows table labels only. For chart labels and tooltips the profile is loaded again
// with `chartLabel` (`tooltipLabel`) in place of `tableLabel`, because the same code renders them.

import { execFile, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, readdirSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";

const HERE = dirname(fileURLToPath(import.meta.url));
export const CLI = join(HERE, "node_modules/@firefox-devtools/profiler-cli/dist/profiler-cli.js");
// Not through node_modules/.bin: npm 9 makes no link when packages for two machines provide it.
const NODE = join(HERE, `node_modules/node-${process.platform}-${process.arch}/bin/node`);
// Every question starts a process, which would otherwise compile the whole front end again.
const COMPILED = join(HERE, "node_modules/.cache/compiled");
const OLDEST_NODE = 24;
const LOAD_SECONDS = Number(process.env.VIEWER_LOAD_SECONDS ?? 180);
const ANSWER_SECONDS = 120;
// What the loader says if the daemon is late. The loader allows half a second for the start of the
// daemon, one second for a connection, and half a minute for an answer.
const LATE = /did not become ready|Timed out (after|connecting)|Please retry the command/;
// The time limit for the start of a daemon.
const START_SECONDS = 300;
// Attempts to end a daemon, with 20 ms between two of them.
const END_TRIES = 1500;
const SESSION = "check";
// Symbols of tables that linkers and compilers make.
const DATA = /^(_GLOBAL_OFFSET_TABLE_|GCC_except_table\d*|_DYNAMIC|__GNU_EH_FRAME_HDR|__bss_start)$/;
// The viewer rounds times of ranges.
const MARGIN_ERROR_MS = 0.1;
// The markers of a larger thread are not listed completely to find their types: the time of the
// daemon's answers grows with the square of their length (100,000 rows: 7 s).
const FEW_MARKERS = 2000;
const EXAMPLES = 50;
// The loader removes "{marker.name} - " from the start of table labels. A mark before it prevents
// that.
const MARK = "\u2063";

/** The check could not run: exit code 2. */
export class CannotRun extends Error {}
/** The viewer refused: exit code 1. */
export class Refused extends Error {}

// ---- the viewer's loader -------------------------------------------------------------------

/** A profile, loaded by the viewer's own code in a separate daemon. */
export class Viewer {
  #hasAskedAgain = false;

  /**
   * The profile is a file or a link. With a symbol server, addresses are named. Without one, the
   * viewer makes no requests for a file. A link may contain the address of a server.
   */
  constructor(profile, symbolServer) {
    this.profile = profile;
    this.symbolServer = symbolServer;
    this.directory = temporaryDirectory();
  }

  async load() {
    const names = this.symbolServer === undefined ? [] : ["--symbol-server", this.symbolServer];
    const begin = performance.now();
    try {
      await this.#run(["load", this.profile, ...names], LOAD_SECONDS);
    } catch (error) {
      if (!LATE.test(error.message)) throw error;
      // The daemon continues without the loader.
      await this.#waitForDaemon(error);
    }
    this.loadSeconds = (performance.now() - begin) / 1000;
  }

  /** Waits until the daemon has loaded the profile. Throws `error` if the daemon ends or time is up. */
  async #waitForDaemon(error) {
    const end = performance.now() + (START_SECONDS + LOAD_SECONDS) * 1000;
    while (!/Profile loaded successfully|Failed to load profile/.test(this.#log())) {
      if (performance.now() > end || processesOf(this.directory).length === 0) throw error;
      await sleep(100);
    }
    // Throws if the daemon has not loaded the profile, with the reason.
    await this.ask("status");
  }

  async ask(...question) {
    const text = await this.#answer([...question, "--json"]);
    try {
      return JSON.parse(text);
    } catch {
      throw new Refused(`no JSON for: ${question.join(" ")}: ${text.slice(0, 200)}`);
    }
  }

  /** Repeats the question until the answer arrives before the loader gives up. */
  async #answer(question) {
    const end = performance.now() + ANSWER_SECONDS * 1000;
    for (;;) {
      try {
        return await this.#run(question, ANSWER_SECONDS);
      } catch (error) {
        if (performance.now() > end || !LATE.test(error.message)) throw error;
        this.#hasAskedAgain = true;
      }
    }
  }

  /** Returns the warnings and errors in the viewer's log, without their times. */
  complaints() {
    const log = this.#log();
    if (log === "") throw new CannotRun("the viewer's daemon left no log");
    const lines = log.split("\n").filter((l) => /^\[(WARN|ERROR)\]/.test(l));
    const texts = new Set(lines.map((l) => l.replace(/^(\S+) \S+ /, "$1 ")));
    // The daemon logs this error if the loader has given up.
    const isLate = (text) => this.#hasAskedAgain && text.startsWith("[ERROR] Socket error: ");
    return [...texts].filter((text) => !isLate(text));
  }

  /** Returns the daemon's log, which is empty before the daemon has started. */
  #log() {
    const log = join(this.directory, `${SESSION}.log`);
    return existsSync(log) ? readFileSync(log, "utf8") : "";
  }

  async close() {
    try {
      await this.#run(["stop", SESSION], ANSWER_SECONDS, []);
    } catch {
      // No profile is loaded, or the daemon has ended. The next line makes sure of it.
    }
    await endProcesses(this.directory);
    rmSync(this.directory, { recursive: true, force: true });
  }

  #run(command, seconds, session = ["--session", SESSION]) {
    const hasNoServer = this.symbolServer === undefined && !/^https?:/.test(this.profile);
    const env = {
      PATH: process.env.PATH,
      HOME: this.directory,
      TMPDIR: this.directory,
      PROFILER_CLI_SESSION_DIR: this.directory,
      ...(hasNoServer ? { PROFILER_CLI_NO_SYMBOLICATE: "1" } : {}),
      PROFILER_CLI_LOAD_TIMEOUT_MS: String(LOAD_SECONDS * 1000),
      NODE_COMPILE_CACHE: COMPILED,
      NODE_OPTIONS: process.env.NODE_OPTIONS ?? "--max-old-space-size=4096",
    };
    const options = { env, timeout: seconds * 1000, killSignal: "SIGKILL", maxBuffer: 2 ** 29 };
    return new Promise((resolve, reject) => {
      execFile(process.execPath, [CLI, ...command, ...session], options, (error, stdout, stderr) => {
        if (!error) return resolve(stdout);
        const reason = error.killed ? `no answer in ${seconds} s` : stderr.trim() || error.message;
        reject(new Refused(`${command.slice(0, 2).join(" ")}: ${reason}`));
      }).stdin.end();
    });
  }
}

/** Returns the processes that were started with this directory. */
function processesOf(directory) {
  const isOne = (pid) => {
    try {
      const variables = readFileSync(`/proc/${pid}/environ`, "utf8").split("\0");
      return variables.includes(`PROFILER_CLI_SESSION_DIR=${directory}`);
    } catch {
      return false;
    }
  };
  return readdirSync("/proc").filter((pid) => /^\d+$/.test(pid) && isOne(pid));
}

/**
 * Ends the processes of this directory, including a daemon that becomes ready after its loader has
 * given up.
 */
async function endProcesses(directory) {
  for (let left = END_TRIES; left > 0; left -= 1) {
    const pids = processesOf(directory);
    if (pids.length === 0) return;
    for (const pid of pids) {
      try {
        process.kill(Number(pid), "SIGKILL");
      } catch {
        // The process has ended, as intended.
      }
    }
    await sleep(20);
  }
  throw new CannotRun(`the viewer's daemon does not end: ${processesOf(directory)}`);
}

/**
 * Creates a directory with a short path: the path of the daemon's socket may have 107 bytes at
 * most.
 */
function temporaryDirectory() {
  const base = tmpdir().length < 60 ? tmpdir() : "/tmp";
  return mkdtempSync(join(base, "viewer-"));
}

// ---- the viewer's answers ------------------------------------------------------------------

/** Returns everything that the checks need, in one pass over the threads. */
async function inventory(viewer) {
  const info = await viewer.ask("profile", "info", "--all");
  const listed = await viewer.ask("thread", "list", "--limit", "0", "--sort", "index");
  const threads = [];
  for (const entry of listed.threads) {
    const shown = await viewer.ask("thread", "markers", "--thread", entry.threadHandle, "--limit", "0");
    const details = await viewer.ask("thread", "info", "--thread", entry.threadHandle);
    if (details.sampleCount > 0) {
      await viewer.ask("thread", "samples-top-down", "--include-idle", "--thread", entry.threadHandle);
    }
    threads.push({
      ...entry,
      samples: details.sampleCount,
      functions: functionsOf(viewer, entry.threadHandle, details),
      markers: new Map(shown.byType.map((group) => [group.markerName, group.count])),
      shownMarkers: shown.totalMarkerCount,
    });
  }
  const processes = info.processes.map((process) => ({
    ...process,
    threads: threads.filter((thread) => thread.pid === process.pid),
  }));
  return { processes, threads, totals: { processes: info.processCount, threads: info.threadCount } };
}

/**
 * Returns a function that asks for a thread's functions by a strategy, with or without idle samples,
 * at most once for each question.
 */
function functionsOf(viewer, handle, { availableStrategies }) {
  const answers = new Map();
  return async (strategy, idle) => {
    if (!availableStrategies.includes(strategy)) return [];
    const how = [...(idle ? ["--include-idle"] : []), "--limit", "0", "--strategy", strategy, "--thread", handle];
    const key = how.join(" ");
    if (!answers.has(key)) answers.set(key, (await viewer.ask("thread", "functions", ...how)).functions);
    return answers.get(key);
  };
}

/** Single markers with label and fields. Every question is asked at most once. */
class Markers {
  #answers = new Map();

  constructor(viewer, threads) {
    this.viewer = viewer;
    this.threads = threads;
  }

  /** Returns all markers with this name, or those among them that the viewer's search finds. */
  async find({ process, marker, search }) {
    const found = [];
    for (const thread of this.threads) {
      if (process !== undefined && thread.processName !== process) continue;
      if (!thread.markers.has(marker)) continue;
      const rows = await this.#list(thread, search ?? byName(marker), 0);
      found.push(...rows.filter((row) => row.name === marker));
    }
    return found;
  }

  /** Returns all markers of small threads, and the first markers of every name of large threads. */
  async examples() {
    const found = [];
    for (const thread of this.threads) {
      const names = [...thread.markers.keys()];
      const few = thread.shownMarkers <= FEW_MARKERS || names.some((name) => byName(name) === undefined);
      for (const search of few ? [undefined] : names.map(byName)) {
        found.push(...(await this.#list(thread, search, few ? 0 : EXAMPLES)));
      }
    }
    return found;
  }

  async #list({ threadHandle }, search, limit) {
    const narrowed = search === undefined ? [] : ["--search", search];
    const question = ["thread", "markers", "--list", "--limit", `${limit}`, "--thread", threadHandle, ...narrowed];
    const key = question.join(" ");
    if (!this.#answers.has(key)) this.#answers.set(key, (await this.viewer.ask(...question)).flatMarkers);
    return this.#answers.get(key);
  }
}

/** Returns the viewer's search for a marker name, if the search syntax does not split the name. */
function byName(name) {
  return /^\w[\w ./-]*$/.test(name ?? "") ? `name:${name}` : undefined;
}

// ---- expectations --------------------------------------------------------------------------

// Markers with a stack and no payload: a schema without fields cannot be distinguished from no
// schema.
const NO_PAYLOAD = "NoPayloadUserData";

/**
 * The expected numbers of a thread's functions: key, the viewer's strategy, the name of its number,
 * whether idle samples are included.
 */
const FUNCTIONS = [
  ["selfSamples", "timing", "selfSamples", true],
  ["totalSamples", "timing", "totalSamples", true],
  ["busySelfSamples", "timing", "selfSamples", false],
  ["busyTotalSamples", "timing", "totalSamples", false],
  ["allocatedBytes", "native-allocations", "selfSamples", true],
];
const CONTENTS = ["markers", "samples", "cpuMs", "complete", ...FUNCTIONS.map(([key]) => key)];
const KEYS = {
  expect: ["processes", "moreProcesses", "threads", "markerLabels", "markerFields", "schemas", "counters", "counterCount", "meta", "opensOn"],
  processes: ["name", "pid", "count", "threads", ...CONTENTS],
  threads: ["process", "pid", "name", ...CONTENTS],
  markerLabels: ["process", "marker", "label", "kind", "count", "search"],
  markerFields: ["process", "marker", "field", "value", "count", "search"],
  schemas: ["name", "fields"],
  counters: ["process", "name", "label", "unit", "graphType", "samples", "busyRanges", "sum"],
  opensOn: ["process", "thread", "marker", "marginMs"],
};
const NEEDED = {
  processes: ["name"],
  threads: ["process", "name"],
  markerLabels: ["marker", "label"],
  markerFields: ["marker", "field", "value"],
  schemas: ["name"],
  counters: ["process", "name"],
};
const LABELS = { table: "tableLabel", chart: "chartLabel", tooltip: "tooltipLabel" };

function knownKeys(object, known, where) {
  if (object === null || typeof object !== "object" || Array.isArray(object)) {
    throw new CannotRun(`${where} is no object`);
  }
  const unknown = Object.keys(object).filter((key) => !known.includes(key));
  if (unknown.length > 0) throw new CannotRun(`${where} has unknown keys: ${unknown.join(", ")}`);
}

/**
 * Throws if EXPECT does not have the form that the head of this file describes, or expects nothing.
 */
function validated(expect) {
  knownKeys(expect, KEYS.expect, "EXPECT");
  const { moreProcesses, ...rest } = expect;
  if (Object.values(rest).every((part) => Object.keys(part ?? {}).length === 0)) {
    throw new CannotRun("EXPECT expects nothing");
  }
  for (const [part, needed] of Object.entries(NEEDED)) {
    if (expect[part] !== undefined && !Array.isArray(expect[part])) throw new CannotRun(`${part} is no list`);
    (expect[part] ?? []).forEach((entry, index) => {
      if (part === "schemas" && typeof entry === "string") return;
      const where = `${part}[${index}]`;
      knownKeys(entry, KEYS[part], where);
      const missing = needed.filter((key) => entry[key] === undefined);
      if (missing.length > 0) throw new CannotRun(`${where} lacks: ${missing.join(", ")}`);
      const named = ["markers", ...FUNCTIONS.map(([key]) => key)].flatMap((key) => Object.values(entry[key] ?? {}));
      for (const wanted of [entry.count, entry.samples, entry.cpuMs, entry.busyRanges, entry.sum, ...named]) {
        if (wanted !== undefined) validCount(wanted, where);
      }
      if (entry.kind !== undefined && !LABELS[entry.kind]) throw new CannotRun(`${where}: kind ${entry.kind}`);
    });
  }
  if (expect.counterCount !== undefined) validCount(expect.counterCount, "counterCount");
  if (expect.opensOn !== undefined) {
    knownKeys(expect.opensOn, KEYS.opensOn, "opensOn");
    const missing = KEYS.opensOn.filter((key) => expect.opensOn[key] === undefined);
    if (missing.length > 0) throw new CannotRun(`opensOn lacks: ${missing.join(", ")}`);
  }
  return expect;
}

function validCount(wanted, where) {
  if (Number.isInteger(wanted)) return;
  knownKeys(wanted, ["min", "max"], `${where}: a count`);
  const ends = Object.values(wanted);
  if (ends.length === 0 || !ends.every(Number.isInteger)) throw new CannotRun(`${where}: an empty count`);
}

function matches(count, wanted) {
  if (typeof wanted === "number") return count === wanted;
  return count >= (wanted.min ?? 0) && count <= (wanted.max ?? Infinity);
}

/** Prints and counts checks. A failed check prints the actual value. */
class Report {
  passed = 0;
  failed = 0;

  check(good, what, saw = "") {
    if (good) this.passed += 1;
    else this.failed += 1;
    const line = good ? `ok   ${what}` : `FAIL ${what}${saw === "" ? "" : `: saw ${saw}`}`;
    console.log(line.length > 600 ? `${line.slice(0, 600)}...` : line);
  }

  count(count, wanted, what) {
    const text = typeof wanted === "number" ? wanted : `${wanted.min ?? 0}..${wanted.max ?? ""}`;
    this.check(matches(count, wanted), `${what}: ${text}`, count);
  }
}

// ---- the checks ----------------------------------------------------------------------------

async function checkAlways(report, all) {
  report.check(all.threads.length > 0, "at least one thread", all.threads.length);
  for (const thread of all.threads) {
    const name = `${thread.processName} / ${thread.name} (${thread.tid})`;
    report.check(
      thread.markerCount === thread.shownMarkers,
      `${name}: all markers lie in the shown range`,
      `${thread.shownMarkers} of ${thread.markerCount}`,
    );
    if (thread.markers.has(undefined)) report.check(false, `${name}: every marker has a name`);
    const data = (await thread.functions("timing", true)).filter((f) => DATA.test(f.name));
    if (data.length > 0) report.check(false, `${name}: every function is code`, data.map((f) => f.name).join(", "));
  }
}

async function checkProcesses(report, all, expect) {
  if (expect.processes === undefined) return;
  if (!expect.moreProcesses) {
    const total = expect.processes.reduce((sum, process) => sum + (process.count ?? 1), 0);
    report.count(all.totals.processes, total, "processes");
  }
  for (const wanted of expect.processes) {
    const found = all.processes.filter(
      (process) => process.name === wanted.name && (wanted.pid === undefined || process.pid === String(wanted.pid)),
    );
    const what = `process "${wanted.name}"${wanted.pid === undefined ? "" : ` (${wanted.pid})`}`;
    report.count(found.length, wanted.count ?? 1, `${what} is there`);
    const threads = found.flatMap((process) => process.threads);
    if (Array.isArray(wanted.threads)) {
      const names = threads.map((thread) => thread.name).sort();
      const same = JSON.stringify(names) === JSON.stringify([...wanted.threads].sort());
      report.check(same, `${what}: threads ${wanted.threads.join(", ")}`, names.join(", ") || "none");
    } else if (wanted.threads !== undefined) {
      report.count(threads.length, wanted.threads, `${what}: threads`);
    }
    await checkContents(report, threads, wanted, what);
  }
}

async function checkThreads(report, all, expect) {
  for (const wanted of expect.threads ?? []) {
    const found = all.threads.filter(
      (thread) =>
        thread.name === wanted.name &&
        thread.processName === wanted.process &&
        (wanted.pid === undefined || thread.pid === String(wanted.pid)),
    );
    const what = `thread "${wanted.name}" of "${wanted.process}"`;
    report.check(found.length > 0, `${what} is there`, all.threads.map((thread) => thread.name).join(", "));
    await checkContents(report, found, wanted, what);
  }
}

async function checkContents(report, threads, wanted, what) {
  const names = [...new Set(threads.flatMap((thread) => [...thread.markers.keys()]))];
  const count = (name) => threads.reduce((sum, thread) => sum + (thread.markers.get(name) ?? 0), 0);
  for (const [name, number] of Object.entries(wanted.markers ?? {})) {
    report.count(count(name), number, `${what}: markers "${name}"`);
  }
  if (wanted.complete) {
    // Which samples have a context depends on when they were taken.
    const others = names.filter((name) => wanted.markers?.[name] === undefined && name !== "Context");
    report.check(others.length === 0, `${what}: no other markers`, others.join(", "));
  }
  if (wanted.samples !== undefined) {
    const samples = threads.reduce((sum, thread) => sum + thread.samples, 0);
    report.count(samples, wanted.samples, `${what}: samples`);
  }
  if (wanted.cpuMs !== undefined) {
    const cpu = threads.reduce((sum, thread) => sum + thread.cpuMs, 0);
    report.count(Math.round(cpu), wanted.cpuMs, `${what}: milliseconds of processor time`);
  }
  for (const [key, strategy, number, idle] of FUNCTIONS) {
    for (const [name, count] of Object.entries(wanted[key] ?? {})) {
      let found = 0;
      for (const thread of threads) {
        const same = (await thread.functions(strategy, idle)).filter((f) => f.nameWithLibrary === name);
        found += same.reduce((sum, f) => sum + f[number], 0);
      }
      report.count(found, count, `${what}: ${key} of "${name}"`);
    }
  }
}

/** Returns the first actual values as `"a", "b", ...`. */
function sampleOf(texts) {
  const some = [...new Set(texts)].slice(0, 4).map((text) => JSON.stringify(text));
  return some.length === 0 ? "no such marker" : some.join(", ");
}

async function checkLabels(report, markers, wanted, cut = (label) => label) {
  for (const { process, marker, search, label, count, kind = "table" } of wanted) {
    const labels = (await markers.find({ process, marker, search })).map((row) => cut(row.label));
    const what = `${kind} label of "${marker}"${process === undefined ? "" : ` in "${process}"`} is "${label}"`;
    const found = labels.filter((text) => text === label).length;
    report.check(matches(found, count ?? { min: 1 }), what, `${found} times; there are ${sampleOf(labels)}`);
  }
}

async function checkFields(report, markers, wanted) {
  for (const { process, marker, search, field, value, count } of wanted ?? []) {
    const rows = await markers.find({ process, marker, search });
    const fields = rows.flatMap((row) => row.fields ?? []).filter((entry) => entry.label === field);
    const found = fields.filter((entry) => entry.formattedValue === value).length;
    const saw = `${found} times; there are ${sampleOf(fields.map((entry) => entry.formattedValue))}`;
    report.check(matches(found, count ?? { min: 1 }), `field "${field}" of "${marker}" is "${value}"`, saw);
  }
}

/** Checks the schemas as the viewer applied them to the recorded markers. */
async function checkSchemas(report, markers, wanted) {
  const rows = await markers.examples();
  const types = new Map();
  for (const row of rows) {
    if (row.markerType === undefined) continue;
    const known = types.get(row.markerType) ?? { fields: undefined, longest: [] };
    known.fields ??= row.fields;
    if ((row.fields?.length ?? 0) > known.longest.length) known.longest = row.fields.map((field) => field.label);
    types.set(row.markerType, known);
  }
  for (const [type, { fields }] of types) {
    if (type === NO_PAYLOAD) continue;
    report.check(fields !== undefined, `payload type "${type}" has a schema`, "none");
  }
  for (const entry of wanted ?? []) {
    const { name, fields } = typeof entry === "string" ? { name: entry } : entry;
    report.check(types.has(name), `there are markers of type "${name}"`, [...types.keys()].join(", ") || "no types");
    if (fields === undefined) continue;
    const shown = types.get(name)?.longest ?? [];
    const same = JSON.stringify(shown) === JSON.stringify(fields);
    report.check(same, `type "${name}" shows the fields ${fields.join(", ")}`, shown.join(", ") || "none");
  }
}

async function checkCounters(report, viewer, wanted, count) {
  if (wanted === undefined && count === undefined) return;
  const { counters } = await viewer.ask("counter", "list");
  if (count !== undefined) report.count(counters.length, count, "counters");
  for (const { process, name, samples, busyRanges, sum, ...rest } of wanted ?? []) {
    const what = `counter "${name}" of "${process}"`;
    const found = counters.filter((counter) => counter.name === name && counter.processName === process);
    report.check(found.length > 0, `${what} is there`, counters.map((c) => `${c.name} of ${c.processName}`).join(", "));
    for (const [key, value] of Object.entries(rest)) {
      report.check(found.some((c) => c[key] === value), `${what}: ${key} ${value}`, found[0]?.[key] ?? "none");
    }
    if (samples !== undefined) report.count(found[0]?.rangeSampleCount ?? 0, samples, `${what}: samples`);
    const graph = found[0]?.graph ?? [];
    if (busyRanges !== undefined) {
      report.count(graph.filter((value) => value !== 0).length, busyRanges, `${what}: ranges with changes`);
    }
    if (sum !== undefined) report.count(Math.round(graph.reduce((a, b) => a + b, 0)), sum, `${what}: sum`);
  }
}

/** Checks what the viewer shows at first: a thread, and the time of one of its markers. */
async function checkOpening(report, viewer, all, wanted) {
  if (wanted === undefined) return;
  const { process, thread: name, marker, marginMs } = wanted;
  const { selectedThreadHandle } = await viewer.ask("status");
  const selected = all.threads.find((thread) => thread.threadHandle === selectedThreadHandle);
  const isRight = selected?.processName === process && selected?.name === name;
  report.check(isRight, `it opens on thread "${name}" of "${process}"`, `${selected?.name} of ${selected?.processName}`);
  if (selected === undefined) return;
  const question = ["thread", "markers", "--list", "--limit", "0", "--thread", selectedThreadHandle];
  const rows = (await viewer.ask(...question)).flatMarkers.filter((row) => row.name === marker);
  report.count(rows.length, 1, `it opens on one marker "${marker}"`);
  const { durationMs } = await viewer.ask("profile", "meta");
  const [{ start, duration }] = rows.length > 0 ? rows : [{ start: NaN, duration: NaN }];
  const before = Math.abs(start - marginMs) < MARGIN_ERROR_MS;
  const after = Math.abs(durationMs - start - duration - marginMs) < MARGIN_ERROR_MS;
  report.check(before && after, `the range is that of "${marker}" and ${marginMs} ms on both sides`, `${start} ms + ${duration} ms of ${durationMs} ms`);
}

async function checkMeta(report, viewer, wanted) {
  if (wanted === undefined) return;
  const meta = await viewer.ask("profile", "meta");
  for (const [key, value] of Object.entries(wanted)) {
    const same = JSON.stringify(meta[key]) === JSON.stringify(value);
    report.check(same, `meta ${key} is ${JSON.stringify(value)}`, JSON.stringify(meta[key]) ?? "nothing");
  }
}

// ---- chart labels and tooltips -------------------------------------------------------------

/**
 * Writes a copy of the profile in which the viewer shows another label in place of the table's
 * label.
 */
function relabelled(profile, key, directory) {
  const bytes = readFileSync(profile);
  const object = JSON.parse((bytes[0] === 0x1f && bytes[1] === 0x8b ? gunzipSync(bytes) : bytes).toString("utf8"));
  for (const process of [object, ...(object.processes ?? [])]) {
    for (const schema of process.meta.markerSchema) schema.tableLabel = MARK + (schema[key] ?? "");
  }
  const copy = join(directory, `${key}.json`);
  writeFileSync(copy, JSON.stringify(object));
  return copy;
}

async function checkOtherLabels(report, profile, kind, wanted) {
  if (wanted.length === 0) return;
  const directory = temporaryDirectory();
  try {
    await withViewer(relabelled(profile, LABELS[kind], directory), async (viewer) => {
      const { threads } = await inventory(viewer);
      await checkLabels(report, new Markers(viewer, threads), wanted, (label) => label.replace(MARK, ""));
    });
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

// ---- all together --------------------------------------------------------------------------

const open = new Set();

async function withViewer(profile, work) {
  const viewer = new Viewer(profile);
  open.add(viewer);
  try {
    await viewer.load();
    await work(viewer);
  } finally {
    open.delete(viewer);
    await viewer.close();
  }
}

async function checkAll(report, profile, expect) {
  const labels = (kind) => (expect.markerLabels ?? []).filter((entry) => (entry.kind ?? "table") === kind);
  await withViewer(profile, async (viewer) => {
    report.check(true, "the viewer loads the profile");
    const all = await inventory(viewer);
    const markers = new Markers(viewer, all.threads);
    await checkAlways(report, all);
    await checkProcesses(report, all, expect);
    await checkThreads(report, all, expect);
    await checkSchemas(report, markers, expect.schemas);
    await checkLabels(report, markers, labels("table"));
    await checkFields(report, markers, expect.markerFields);
    await checkCounters(report, viewer, expect.counters, expect.counterCount);
    await checkMeta(report, viewer, expect.meta);
    await checkOpening(report, viewer, all, expect.opensOn);
    const complaints = viewer.complaints();
    report.check(complaints.length === 0, "the viewer complains of nothing", complaints.join(" | "));
  });
  await checkOtherLabels(report, profile, "chart", labels("chart"));
  await checkOtherLabels(report, profile, "tooltip", labels("tooltip"));
}

/** Runs all checks on one profile and returns the exit code. */
export async function check(profile, expectFile) {
  const report = new Report();
  try {
    if (!existsSync(CLI)) throw new CannotRun("no viewer: run `npm ci` in this directory");
    if (!existsSync(profile)) throw new CannotRun(`no such file: ${profile}`);
    const expect = validated(readExpectation(expectFile));
    await checkAll(report, realpathSync(profile), expect);
  } catch (error) {
    if (!(error instanceof Refused)) {
      console.log(`cannot run: ${error instanceof CannotRun ? error.message : error.stack}`);
      return 2;
    }
    report.check(false, "the viewer answers", error.message);
  }
  console.log(`${report.passed} passed, ${report.failed} failed`);
  return report.failed > 0 ? 1 : 0;
}

function readExpectation(file) {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    throw new CannotRun(`${file}: ${error.message}`);
  }
}

async function closeAll(signal) {
  await Promise.all([...open].map((viewer) => viewer.close()));
  console.log(`cannot run: ended by ${signal}`);
  process.exit(2);
}

/**
 * Runs the script again under the Node version that the viewer needs, and exits with its code.
 * Returns if this version suffices.
 */
export function needNode(script) {
  if (Number(process.versions.node.split(".")[0]) >= OLDEST_NODE) return;
  if (!existsSync(NODE)) {
    console.log(`cannot run: the viewer needs node ${OLDEST_NODE}: run \`npm ci\` in this directory`);
    process.exit(2);
  }
  const { status } = spawnSync(NODE, [script, ...process.argv.slice(2)], { stdio: "inherit" });
  process.exit(status ?? 2);
}

if (process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  needNode(process.argv[1]);
  if (process.argv.length !== 4) {
    console.log("usage: node check.mjs PROFILE EXPECT.json");
    process.exit(2);
  }
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, closeAll);
  process.exitCode = await check(process.argv[2], process.argv[3]);
}
