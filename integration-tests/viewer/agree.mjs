// Compares two files of one recording, one in the Gecko format and one in the processed format, as
// the real viewer's loader reads them.
//
//   node agree.mjs GECKO PROCESSED
//
// Both files must come from one session that recorded nothing between the two captures (paused, or
// idle). Prints one line per check, `ok ...` or `FAIL ...`. The exit codes are those of check.mjs.
//
// Compared are: processes and their names; threads with their names and their numbers of markers
// and samples; every marker (name, times, category, label, fields, and its stack if it has one);
// the call tree of every thread with samples, by function, with and without idle samples; the bytes
// that functions allocated; counters with their names and values. A level that is a marker with a
// graph in the Gecko format is compared by its name. Not compared is what one of the formats cannot
// express: how a counter is drawn, files and lines, the weights of samples. A function without a name is compared by its
// library and its address there, in steps of four bytes. Therefore the processed file must have no
// names, or the Gecko file no code.

import { existsSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";

import { CannotRun, Refused, Viewer, needNode } from "./check.mjs";

// Each capture measures the clock's rate again.
const TOLERANCE_MS = 1e-4;
// Markers of the profiler itself that last until the capture.
const UNTIL_CAPTURE = ["Entries lost", "Incomplete process"];
// Each stack of a marker takes a separate question.
const MARKER_STACKS = 200;
// Types of markers that show a counter in the Gecko format.
const LEVELS = ["Level", "MemoryLevel"];
// Counters whose value depends on the moment at which a file is written.
const MOMENTARY = ["Resident memory"];
// Marks that prevent the viewer from interpreting a name in the Gecko format.
const MARKS = /\u200b/g;

let failures = 0;
let passes = 0;

function say(good, what, saw) {
  if (good) passes += 1;
  else failures += 1;
  const line = good ? `ok   ${what}` : `FAIL ${what}: ${saw}`;
  console.log(line.length > 800 ? `${line.slice(0, 800)}...` : line);
}

/** Compares two lists of texts, and prints the first difference. */
function same(what, gecko, processed) {
  const at = gecko.findIndex((item, index) => item !== processed[index]);
  const place = at < 0 && gecko.length !== processed.length ? gecko.length : at;
  say(place < 0, `${what} (${gecko.length})`, `at ${place} of ${gecko.length} and ${processed.length}: ${gecko[place]} | ${processed[place]}`);
}

/** Compares two lists of numbers that may differ slightly. */
function close(what, gecko, processed) {
  const differ = (a, b) => a !== b && (a === undefined || b === undefined || !(Math.abs(a - b) <= TOLERANCE_MS));
  const at = gecko.findIndex((item, index) => differ(item, processed[index]));
  say(at < 0, `${what} (${gecko.length})`, `at ${at}: ${gecko[at]} | ${processed[at]}`);
}

function contentOf(file) {
  const bytes = readFileSync(file);
  return JSON.parse((bytes[0] === 0x1f && bytes[1] === 0x8b ? gunzipSync(bytes) : bytes).toString("utf8"));
}

/**
 * Writes a profile in the processed format without the weights of its samples. Returns the path. A file
 * that is no JSON is left to the viewer as it is.
 */
function withoutWeights(file, directory) {
  let profile;
  try {
    profile = contentOf(file);
  } catch {
    return realpathSync(file);
  }
  for (const { samples } of profile.threads) Object.assign(samples, { weight: null, weightType: "samples" });
  const path = join(directory, "processed.json");
  writeFileSync(path, JSON.stringify(profile));
  return path;
}

/** Returns the libraries of every process of a file in the Gecko format, by process number. */
function librariesOf(file) {
  const root = contentOf(file);
  return new Map([root, ...(root.processes ?? [])].map((one) => [`${one.threads[0]?.pid}`, one.libs ?? []]));
}

/**
 * Rounds an address. The address of a call and its return address are one byte apart; one format
 * stores the former, the other the latter.
 */
const step = (address) => `0x${((address + 1n) & ~3n).toString(16)}`;

/** Returns a function's name, or else its address in its library. */
function functionName(name, libraries) {
  const plain = (name ?? "").replace(MARKS, "");
  const inLibrary = /^(.*)\+(0x[0-9a-f]+)$/i.exec(plain);
  if (inLibrary !== null) return `${inLibrary[1]}+${step(BigInt(inLibrary[2]))}`;
  if (!/^0x[0-9a-f]+$/i.test(plain)) return plain;
  const address = BigInt(plain);
  const library = libraries.find(({ start, end }) => BigInt(start) <= address && address < BigInt(end));
  if (library === undefined) return step(address);
  return `${library.name}+${step(address - BigInt(library.start) + BigInt(library.offset))}`;
}

function markerText(row) {
  const fields = (row.fields ?? []).map((field) => `${field.label}=${field.formattedValue}`);
  return [row.name, row.category, row.label, row.hasStack === true, ...fields].join(" ; ");
}

/** Returns all markers in an order that does not depend on the precision of their times. */
function inOrder(rows) {
  const texts = rows.map((row) => ({ row, text: markerText(row) }));
  const before = (a, b) => (a.text === b.text ? a.row.start - b.row.start : a.text < b.text ? -1 : 1);
  return texts.sort(before);
}

const isLevel = (row) => LEVELS.includes(row.markerType);

async function markers(viewer, thread) {
  const answer = await viewer.ask("thread", "markers", "--list", "--limit", "0", "--thread", thread.threadHandle);
  return answer.flatMarkers;
}

/** Returns the levels of a file that are markers: process and name. */
async function levels(viewer, threads) {
  const all = new Set();
  for (const thread of threads) {
    for (const row of (await markers(viewer, thread)).filter(isLevel)) all.add(`${thread.pid} ; ${row.name}`);
  }
  return all;
}

/**
 * Adds all nodes of a call tree to `all`: total samples and own samples, by the names from the root
 * on.
 */
function addPaths(node, above, libraries, all) {
  const path = `${above} > ${functionName(node.name, libraries)}`;
  const sum = all.get(path) ?? { total: 0, self: 0 };
  all.set(path, { total: sum.total + node.totalSamples, self: sum.self + node.selfSamples });
  for (const child of node.children ?? []) addPaths(child, path, libraries, all);
}

async function callTree({ viewer, libraries }, thread, ...how) {
  const question = ["thread", "samples-top-down", ...how, "--max-lines", "100000", "--thread", thread.threadHandle];
  const { regularCallTree } = await viewer.ask(...question);
  if (regularCallTree === undefined) throw new CannotRun("the viewer's answer has no call tree");
  const all = new Map();
  addPaths(regularCallTree, "", libraries.get(thread.pid) ?? [], all);
  return [...all].map(([path, { total, self }]) => `${path}: ${total} ${self}`).sort();
}

/** Returns the bytes that each function itself allocated, if allocations were recorded. */
async function allocations({ viewer, libraries }, thread) {
  if (!thread.strategies.includes("native-allocations")) return [];
  const how = ["--include-idle", "--limit", "0", "--strategy", "native-allocations", "--thread", thread.threadHandle];
  const { functions } = await viewer.ask("thread", "functions", ...how);
  const sums = new Map();
  for (const { name, selfSamples, totalSamples } of functions) {
    // As in check.mjs, the viewer puts a library before an address.
    const plain = functionName(name.replace(/^.*!(?=0x)/, ""), libraries.get(thread.pid) ?? []).replace(/^.*!/, "");
    const { total, self } = sums.get(plain) ?? { total: 0, self: 0 };
    sums.set(plain, { total: total + totalSamples, self: self + selfSamples });
  }
  return [...sums].map(([name, { total, self }]) => `${name}: ${total} ${self}`).sort();
}

async function stackOf({ viewer, libraries }, { handle }, thread) {
  const { stack } = await viewer.ask("marker", "stack", handle);
  return (stack?.frames ?? []).map(({ name }) => functionName(name, libraries.get(thread.pid) ?? [])).join(" < ");
}

/** Returns everything of one file that is compared. */
async function look(viewer, libraries) {
  const info = await viewer.ask("profile", "info", "--all");
  const listed = await viewer.ask("thread", "list", "--limit", "0", "--sort", "index");
  const threads = [];
  for (const thread of listed.threads) {
    const details = await viewer.ask("thread", "info", "--thread", thread.threadHandle);
    const key = `${thread.processName} ${thread.pid} / ${thread.name} ${thread.tid}`;
    threads.push({ ...thread, key, samples: details.sampleCount, strategies: details.availableStrategies });
  }
  threads.sort((a, b) => (a.key < b.key ? -1 : 1));
  const { counters } = await viewer.ask("counter", "list");
  return { viewer, libraries, processes: info.processes, threads, counters };
}

const counterText = (counter) => {
  const value = MOMENTARY.includes(counter.name) ? "" : (counter.graph ?? []).reduce((sum, item) => sum + item, 0);
  // The last change of a rate is divided into points up to the capture.
  const points = counter.graphType === "line-rate" ? "" : counter.rangeSampleCount;
  return [counter.pid, counter.name, counter.category, points, value].join(" ; ");
};

async function compareThread(gecko, processed, one, other) {
  const ours = (await markers(gecko.viewer, one)).filter((row) => !isLevel(row));
  const theirs = await markers(processed.viewer, other);
  const [first, second] = [inOrder(ours), inOrder(theirs)];
  same(`${one.key}: markers`, first.map(({ text }) => text), second.map(({ text }) => text));
  close(`${one.key}: when they began`, first.map(({ row }) => row.start), second.map(({ row }) => row.start));
  const lasting = (rows) => {
    // A marker that never ended lasts to the end of the file.
    const end = rows.reduce((latest, { row }) => Math.max(latest, row.start + (row.duration ?? 0)), 0);
    const isOpen = ({ row }) => UNTIL_CAPTURE.includes(row.name) || Math.abs(row.start + (row.duration ?? 0) - end) < TOLERANCE_MS;
    return rows.map((one) => (isOpen(one) ? Infinity : one.row.duration));
  };
  close(`${one.key}: how long they lasted`, lasting(first), lasting(second));
  const withStack = (rows) => rows.filter(({ row }) => row.hasStack).slice(0, MARKER_STACKS);
  const stacks = async (file, rows, thread) => {
    const all = [];
    for (const { row } of withStack(rows)) all.push(await stackOf(file, row, thread));
    return all;
  };
  if (withStack(first).length > 0) {
    same(`${one.key}: stacks of markers`, await stacks(gecko, first, one), await stacks(processed, second, other));
  }
  const bytes = [await allocations(gecko, one), await allocations(processed, other)];
  if (bytes.some((list) => list.length > 0)) same(`${one.key}: allocations`, ...bytes);
  if (one.samples > 0 && other.samples > 0) {
    const trees = async (...how) => [await callTree(gecko, one, ...how), await callTree(processed, other, ...how)];
    same(`${one.key}: call tree`, ...(await trees("--include-idle")));
    same(`${one.key}: call tree without idle samples`, ...(await trees()));
    const cpu = [one, other].map((thread) => `${Math.round(thread.cpuMs * 1000)}`);
    same(`${one.key}: processor time`, [cpu[0]], [cpu[1]]);
  }
}

async function compare(gecko, processed) {
  const process = ({ name, pid }) => `${name} ${pid}`;
  same("processes", gecko.processes.map(process).sort(), processed.processes.map(process).sort());
  const thread = ({ key, samples }) => `${key}: ${samples} samples`;
  same("threads", gecko.threads.map(thread), processed.threads.map(thread));
  const asMarkers = await levels(gecko.viewer, gecko.threads);
  const name = (counter) => `${counter.pid} ; ${counter.name}`;
  const [others, counters] = [true, false].map((is) => processed.counters.filter((counter) => asMarkers.has(name(counter)) === is));
  same("counters", gecko.counters.map(counterText).sort(), counters.map(counterText).sort());
  same("levels", [...asMarkers].sort(), others.map(name).sort());
  for (const one of gecko.threads) {
    const other = processed.threads.find(({ key }) => key === one.key);
    if (other !== undefined) await compareThread(gecko, processed, one, other);
  }
  for (const { viewer } of [gecko, processed]) {
    const complaints = viewer.complaints();
    say(complaints.length === 0, "the viewer complains of nothing", complaints.join(" | "));
  }
}

async function main([gecko, processed]) {
  const directory = mkdtempSync(join(tmpdir(), "agree-"));
  const files = [realpathSync(gecko), withoutWeights(processed, directory)];
  const viewers = files.map((file) => new Viewer(file));
  try {
    for (const viewer of viewers) await viewer.load();
    const first = await look(viewers[0], librariesOf(gecko));
    const second = await look(viewers[1], new Map());
    await compare(first, second);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    say(false, "the viewer answers", error.message);
  } finally {
    for (const viewer of viewers) await viewer.close();
    rmSync(directory, { recursive: true });
  }
  console.log(`${passes} passed, ${failures} failed`);
  return failures > 0 ? 1 : 0;
}

if (process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  needNode(process.argv[1]);
  const files = process.argv.slice(2);
  if (files.length !== 2 || !files.every(existsSync)) {
    console.log("usage: node agree.mjs GECKO PROCESSED");
    process.exit(2);
  }
  try {
    process.exitCode = await main(files);
  } catch (error) {
    console.log(`cannot run: ${error instanceof CannotRun ? error.message : error.stack}`);
    process.exitCode = 2;
  }
}
