// Checks that the exports open in their target tools, with the recorded names and times.
//
//   node exports.mjs PROFILER PROFILE EXPECT.json
//
// PROFILER is the `profiler` command, PROFILE is a recording of `known_shares`, and EXPECT.json
// holds the known facts about it. Chrome's developer tools, pprof's decoder and Perfetto's engine
// come from npm.
// speedscope runs in a headless Chromium. If none is installed, this part is reported as skipped,
// and the exit code is 3. Then every file is corrupted on purpose, and the checks must notice it.
// Prints one line per check, `ok ...` or `FAIL ...`. The other exit codes are those of check.mjs.

import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, readdirSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync, gzipSync } from "node:zlib";

import { needNode } from "./check.mjs";

needNode(fileURLToPath(import.meta.url));

const devtools = await import("./exports/devtools.mjs");
const firefox = await import("./exports/firefox.mjs");
const perfetto = await import("./exports/perfetto.mjs");
const pprof = await import("./exports/pprof.mjs");
const speedscope = await import("./exports/speedscope.mjs");
const { busiest, readReference } = await import("./exports/reference.mjs");
const { tolerance } = await import("./exports/shares.mjs");

const VIEWER = dirname(fileURLToPath(import.meta.url));
let passes = 0;
let failures = 0;

function say(good, what) {
  if (good) passes += 1;
  else failures += 1;
  console.log(`${good ? "ok  " : "FAIL"} ${what}`);
}

/** Exports the profile to every format. */
function exportAll(profiler, profile, directory) {
  const targets = { cpuprofile: "cpuprofile", speedscope: "profile.speedscope.json", "chrome-trace": "profile.trace.json", pprof: "profile.pb.gz", folded: "profile.folded", perfetto: "profile.pftrace" };
  for (const [format, name] of Object.entries(targets)) {
    execFileSync(profiler, ["export", profile, "--to", format, "-o", join(directory, name)], { stdio: "pipe" });
  }
}

/**
 * X1: checks the known functions, with their shares of the samples in which their thread ran. A
 * stall of the machine lengthens the time of the running function, but adds no samples.
 */
function checkNames(reference, expect) {
  for (const process of expect.processes) {
    const thread = reference.find((thread) => thread.process === process && thread.isMainThread);
    say(thread !== undefined, `X1 "${process}" has a file`);
    if (thread === undefined) continue;
    const functions = busiest(thread, 0);
    const samples = functions.reduce((sum, [name]) => sum + thread.hits.get(name), 0);
    for (const { name, self } of expect.functions) {
      const percent = (thread.hits.get(name) ?? 0) / samples * 100;
      say(Math.abs(percent - self) <= tolerance(self, samples), `X1 "${process}": ${name} has ${self} % (${percent.toFixed(1)})`);
    }
  }
}

/** X3: compares with the command's own report, over all processes. */
function checkReport(profiler, profile, reference) {
  const info = JSON.parse(execFileSync(profiler, ["info", "--json", "--by", "cpu", "--top", "3", profile], { encoding: "utf8" }));
  for (const row of info.samples.top) {
    const us = reference.reduce((sum, thread) => sum + (thread.self.get(row.function) ?? 0), 0);
    const good = Math.abs(us / 1000 - row.self_ms) <= row.self_ms * 0.01;
    say(good, `X3 ${row.function} has ${row.self_ms.toFixed(1)} ms as in the report (${(us / 1000).toFixed(1)})`);
  }
  for (const thread of reference) {
    const sum = [...thread.self.values()].reduce((sum, us) => sum + us, 0);
    say(sum === thread.total, `X3 "${thread.name}": self and idle times are the recording's (${sum} µs)`);
  }
}

function edit(file, change) {
  const packed = file.endsWith(".gz");
  const encoding = packed || file.endsWith(".pftrace") ? "latin1" : "utf8";
  const bytes = packed ? gunzipSync(readFileSync(file)) : readFileSync(file);
  const changed = Buffer.from(change(bytes.toString(encoding)), encoding);
  writeFileSync(file, packed ? gzipSync(changed) : changed);
}

/** Returns whether a check reports an error. */
async function notices(check, context) {
  let wrong = 0;
  try {
    await check({ ...context, selftest: true }, (good) => (wrong += good ? 0 : 1));
  } catch {
    wrong += 1;
  }
  return wrong > 0;
}

/** Corrupts every file once. The checks must notice it. */
async function selftest(context, hasBrowser) {
  const busy = context.reference.find((thread) => thread.samples > 100 && busiest(thread, 0.05).length > 0);
  for (const [what, change] of devtools.breaks) {
    const profile = structuredClone(busy.profile);
    change(profile);
    say(await notices(devtools.check, { ...context, reference: [{ ...busy, profile }] }), `noticed by DevTools' model: ${what}`);
  }
  const broken = join(context.work, "broken");
  cpSync(context.directory, broken, { recursive: true });
  const others = { ...context, directory: broken };
  edit(join(broken, "profile.pb.gz"), (text) => text.replaceAll("known_shares", "other_shares").replaceAll("inlined_loop", "outlined_hoop"));
  say(await notices(pprof.check, others), "noticed by pprof's decoder: other names");
  edit(join(broken, "profile.trace.json"), (text) => text.replaceAll('"inlined_loop"', '"(idle)"'));
  say(await notices(firefox.check, others), "noticed by the viewer: a function's samples are idle");
  const trace = join(broken, "profile.pftrace");
  edit(trace, (text) => text.replaceAll("inlined_loop", "outlined_hoo"));
  say(await notices(perfetto.check, others), "noticed in Perfetto's engine: another name");
  cpSync(join(context.directory, "profile.pftrace"), trace);
  edit(trace, (text) => text + perfetto.sampleOf(text));
  say(await notices(perfetto.check, others), "noticed in Perfetto's engine: a sample twice");
  if (!hasBrowser) return;
  edit(join(broken, "profile.speedscope.json"), (text) => text.replace(/"name":"([^"]*) \/ /, '"name":"$1 - '));
  say(await notices(speedscope.check, others), "noticed by speedscope: another name");
}

async function main([profiler, profile, expectFile]) {
  if (expectFile === undefined) {
    console.log("usage: node exports.mjs PROFILER PROFILE EXPECT.json");
    return 2;
  }
  const work = mkdtempSync(join(realpathSync(tmpdir()), "exports-"));
  try {
    const directory = join(work, "exports");
    execFileSync("mkdir", [directory]);
    exportAll(realpathSync(profiler), profile, directory);
    const expect = JSON.parse(readFileSync(expectFile, "utf8"));
    const reference = readReference(join(directory, "cpuprofile"));
    const context = { viewer: VIEWER, profile, work, directory, reference, profiler: realpathSync(profiler) };
    say(readdirSync(join(directory, "cpuprofile")).length === reference.length + 1, `X1 a file per thread, and the index (${reference.length})`);
    checkNames(reference, expect);
    checkReport(profiler, profile, reference);
    const hasBrowser = speedscope.browser() !== undefined;
    const tools = { devtools, pprof, perfetto, firefox, ...(hasBrowser ? { speedscope } : {}) };
    for (const [name, { check }] of Object.entries(tools)) {
      const begin = performance.now();
      await check(context, say);
      console.log(`     ${name}: ${((performance.now() - begin) / 1000).toFixed(1)} s`);
    }
    await selftest(context, hasBrowser);
    console.log(`${passes} passed, ${failures} failed`);
    if (failures > 0) return 1;
    if (!hasBrowser) console.log("skipped: speedscope: no Chromium");
    return hasBrowser ? 0 : 3;
  } finally {
    rmSync(work, { recursive: true, force: true, maxRetries: 5 });
  }
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  console.log(`cannot run: ${error.stack}`);
  process.exitCode = 2;
}
