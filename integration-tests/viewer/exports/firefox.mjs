// Opens the trace events of all processes in the Firefox Profiler's loader, and X9, an imported
// profile of node.

import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { Viewer } from "../check.mjs";
import { busiest, near, selfTimes } from "./reference.mjs";

/** Opens a profile in the viewer and runs `body`. */
async function open(profile, body) {
  const viewer = new Viewer(profile);
  try {
    await viewer.load();
    const { threads } = await viewer.ask("thread", "list", "--limit", "0", "--sort", "index");
    await body(viewer, threads);
  } finally {
    await viewer.close();
  }
}

/** Returns the percentages of a thread's time, by function. */
async function shares(viewer, thread) {
  await viewer.ask("thread", "select", thread.threadHandle);
  const { functions } = await viewer.ask("thread", "functions", "--limit", "0");
  const all = new Map();
  for (const { name, selfPercentage } of functions) all.set(name, (all.get(name) ?? 0) + selfPercentage);
  return all;
}

async function checkTrace(file, reference, say) {
  await open(file, async (viewer, threads) => {
    const processes = new Set(threads.map((thread) => thread.processName));
    const expected = new Set(reference.map((thread) => thread.process));
    const all = [...expected].every((name) => [...processes].some((shown) => shown.includes(name)));
    say(all, `trace: the viewer shows all processes (${[...processes].join(", ")})`);
    for (const thread of reference.filter((thread) => thread.samples > 100 && thread.isMainThread)) {
      const found = threads.find((shown) => shown.processName.includes(thread.process) && shown.tid === `${shown.pid}:${thread.tid}`);
      say(found !== undefined, `trace: "${thread.name}" is there`);
      if (found === undefined) continue;
      const shown = await shares(viewer, found);
      // The viewer counts samples, without idle ones.
      const running = thread.samples - (thread.hits.get("(idle)") ?? 0);
      for (const [name] of busiest(thread, 0.05)) {
        const percent = thread.hits.get(name) / running * 100;
        say(near(shown.get(name), percent, 100, 0.015), `trace: "${thread.name}": ${name} has ${percent.toFixed(1)} % (${shown.get(name)})`);
      }
    }
  });
}

const SCRIPT = `
function spin(n) { let x = n; for (let i = 0; i < n; i += 1) x = (x * 31 + i) % 1000003; return x; }
function half(n) { return spin(n) + spin(n); }
const end = Date.now() + 700;
while (Date.now() < end) half(200000);
`;

/** X9: imports a profile that `node --cpu-prof` writes. */
async function checkImport(profiler, work, say) {
  const script = join(work, "spin.mjs");
  writeFileSync(script, SCRIPT);
  execFileSync(process.execPath, ["--cpu-prof", "--cpu-prof-dir", work, "--cpu-prof-name", "node.cpuprofile", script]);
  const file = join(work, "node.cpuprofile");
  const expected = selfTimes(JSON.parse(readFileSync(file, "utf8")));
  const imported = join(work, "node.json.gz");
  execFileSync(profiler, ["import", file, "-o", imported], { stdio: "pipe" });
  await open(imported, async (viewer, threads) => {
    say(threads.length === 1, `X9 the viewer opens what node recorded`);
    const shown = await shares(viewer, threads[0]);
    // The time before the first sample has no function. The viewer leaves out idle time.
    const idle = expected.self.get("(idle)") ?? 0;
    const sum = [...expected.self.values()].reduce((sum, us) => sum + us, -idle);
    for (const [name, us] of busiest(expected, 0.02).filter(([name]) => name !== "")) {
      const percent = us / sum * 100;
      say(near(shown.get(name), percent, 100, 0.01), `X9 ${name} has ${percent.toFixed(1)} % as in node's file (${shown.get(name)})`);
    }
    say(busiest(expected, 0.1).some(([name]) => name === "spin"), "X9 node recorded what ran");
  });
}

export async function check({ directory, reference, profiler, work, selftest }, say) {
  await checkTrace(join(directory, "profile.trace.json"), reference, say);
  if (!selftest) await checkImport(profiler, work, say);
}
