// Checks that each of the four faults of the example `find_it` can be found in its profile in the
// way that docs/find-it.md describes.
//
//   node find-it.mjs PROFILE DOCUMENT
//
// DOCUMENT is docs/find-it.md. The functions and the marker that are looked for are those in its
// table of answers. Prints one line per check, `ok ...` or `FAIL ...`. The exit codes are those of
// check.mjs.

import { existsSync, readFileSync, realpathSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { CannotRun, Refused, Viewer, needNode } from "./check.mjs";

// A fault is found if it stands out: with at least this part of what the picture shows.
const CLEAR_SHARE = 40;
// The memory that the leak keeps, as a percentage of the memory that the picture shows.
const LEAKED_SHARE = 80;
// The time-out of the slow plugin, in milliseconds.
const SLOW_MS = 200;

let failed = 0;
function check(passed, what, saw = "") {
  if (!passed) failed += 1;
  console.log(passed ? `ok   ${what}` : `FAIL ${what}: ${saw}`);
}

/** Returns the answers in the document's table: the fault and its name in the program. */
function answersOf(document) {
  const text = readFileSync(document, "utf8");
  const answers = {};
  for (const [, fault, name] of text.matchAll(/^\| (hot function|lock|leak|slow plugin) \| `([^`]+)` \|/gm)) answers[fault] = name;
  for (const fault of ["hot function", "lock", "leak", "slow plugin"]) {
    if (answers[fault] === undefined) throw new CannotRun(`${document} does not name the ${fault}`);
  }
  return answers;
}

const percent = (share) => `${share?.toFixed(1)} %`;
const shown = ({ name, selfPercentage, totalPercentage }) => `${name} ${percent(selfPercentage)} self, ${percent(totalPercentage)} total`;

/** A row of the list of functions whose name ends with this path. */
const named = (functions, name) => functions.find((one) => one.name.endsWith(name));

/** The functions of a thread, the one with the most time or memory of its own first. */
async function functionsOf(viewer, thread, ...how) {
  const { functions } = await viewer.ask("thread", "functions", "--limit", "0", "--thread", thread.threadHandle, ...how);
  return functions.toSorted((one, other) => other.selfPercentage - one.selfPercentage);
}

/** Call Tree, without idle samples, inverted: the first row. */
async function findHotFunction(viewer, thread, name) {
  const functions = await functionsOf(viewer, thread);
  const [first] = functions;
  check(first?.name.endsWith(name), `${thread.name}: the first function of the inverted tree is ${name}`, functions.slice(0, 3).map(shown).join("; "));
  check(first?.selfPercentage >= CLEAR_SHARE, `${thread.name}: it has ${percent(first?.selfPercentage)} of the samples`, first && shown(first));
}

/** Flame Graph, with idle samples: the widest function of the program, and the wait above it. */
async function findLock(viewer, thread, name) {
  const functions = await functionsOf(viewer, thread, "--include-idle");
  const holder = named(functions, name);
  check(holder?.totalPercentage >= CLEAR_SHARE, `${thread.name}: ${name} has ${percent(holder?.totalPercentage)} of the samples`, functions.slice(0, 3).map(shown).join("; "));
  if (holder === undefined) return;
  const below = await functionsOf(viewer, thread, "--include-idle", "--root-at", holder.functionHandle);
  const lock = below.find((one) => /lock_contended/.test(one.name));
  check(lock?.totalPercentage >= CLEAR_SHARE, `${thread.name}: ${percent(lock?.totalPercentage)} of them wait for a lock`, below.slice(0, 3).map(shown).join("; "));
}

/** Flame Graph of the retained memory: the widest function of the program below the request. */
async function findLeak(viewer, thread, name) {
  const { availableStrategies } = await viewer.ask("thread", "info", "--thread", thread.threadHandle);
  const strategy = "native-retained-allocations";
  check(availableStrategies.includes(strategy), `${thread.name}: the data source "Retained Memory" is offered`, availableStrategies.join(", "));
  if (!availableStrategies.includes(strategy)) return;
  const share = async (which) => named(await functionsOf(viewer, thread, "--strategy", which), name)?.totalPercentage ?? 0;
  const retained = await share(strategy);
  check(retained >= LEAKED_SHARE, `${thread.name}: ${name} has ${percent(retained)} of the retained memory`, retained);
  const allocated = await share("native-allocations");
  check(allocated < CLEAR_SHARE, `${thread.name}: but only ${percent(allocated)} of the allocated memory`, allocated);
}

/**
 * Marker Chart: the long markers of a plugin. Returns the second longest duration of each name. A
 * single stall of the machine does not change this duration much.
 */
async function pluginsOf(viewer, thread) {
  const { byType } = await viewer.ask("thread", "markers", "--thread", thread.threadHandle, "--category", "Plugins", "--limit", "0");
  return byType.map(({ markerName, topMarkers }) => ({ name: markerName, long: topMarkers[1]?.duration ?? 0 }));
}

function findSlowPlugin(where, plugins, name) {
  const order = plugins.toSorted((one, other) => other.long - one.long);
  const text = order.map((plugin) => `${plugin.name} ${plugin.long.toFixed(1)} ms`).join(", ");
  check(order.length > 1 && order[0].name === name && order[0].long >= SLOW_MS, `${where}: the plugin with the longest markers is ${name}: ${text}`, text);
}

async function checkProfile(viewer, answers) {
  const { threads, context } = await viewer.ask("thread", "list", "--limit", "0", "--sort", "index");
  const handlers = threads.filter((thread) => thread.name.startsWith("handler "));
  check(handlers.length > 0, `there are ${handlers.length} threads that serve requests`, threads.map((t) => t.name).join(", "));
  const selected = context.selectedThreads.map((thread) => thread.name);
  check(selected.length === 1 && selected[0].startsWith("handler "), `the viewer opens with ${selected}`, selected.join(", "));
  for (const thread of handlers) {
    await findHotFunction(viewer, thread, answers["hot function"]);
    await findLock(viewer, thread, answers.lock);
    await findLeak(viewer, thread, answers.leak);
    findSlowPlugin(thread.name, await pluginsOf(viewer, thread), answers["slow plugin"]);
  }
  const complaints = viewer.complaints();
  check(complaints.length === 0, "the viewer complains of nothing", complaints.join(" | "));
}

async function main([profile, document]) {
  needNode(fileURLToPath(import.meta.url));
  try {
    for (const file of [profile, document]) {
      if (file === undefined || !existsSync(file)) throw new CannotRun(`no such file: ${file}`);
    }
    const answers = answersOf(document);
    const viewer = new Viewer(realpathSync(profile));
    try {
      await viewer.load();
      await checkProfile(viewer, answers);
    } finally {
      await viewer.close();
    }
  } catch (error) {
    if (!(error instanceof Refused)) {
      console.log(`cannot run: ${error instanceof CannotRun ? error.message : error.stack}`);
      return 2;
    }
    check(false, "the viewer answers", error.message);
  }
  console.log(`${failed} failed`);
  return failed > 0 ? 1 : 0;
}

process.exitCode = await main(process.argv.slice(2));
