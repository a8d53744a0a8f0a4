// X1, X2, X3: opens `.cpuprofile` files in the model of Chrome's developer tools, bundled from its
// sources.

import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

import { busiest, near } from "./reference.mjs";

const MODEL = "chrome-devtools-frontend/front_end/models/cpu_profile/CPUProfileDataModel.ts";
const LARGE = 100_000;
const LONGEST_S = 100;

/** Bundles the model and returns its class. */
async function model(viewer, work) {
  const stdin = { contents: `export { CPUProfileDataModel } from "${MODEL}";`, resolveDir: viewer, loader: "ts" };
  const { outputFiles } = await build({ stdin, bundle: true, format: "esm", platform: "node", write: false });
  const bundle = join(work, "devtools.mjs");
  writeFileSync(bundle, outputFiles[0].text);
  return (await import(bundle)).CPUProfileDataModel;
}

/**
 * Returns self times in microseconds: once from the samples, as the model's tables show them, and
 * once from the times of the samples.
 */
function selfTimes(opened) {
  const byHits = new Map();
  const walk = [opened.root];
  let nodes = 0;
  for (let node = walk.pop(); node !== undefined; node = walk.pop()) {
    nodes += 1;
    byHits.set(node.functionName, (byHits.get(node.functionName) ?? 0) + node.self * 1000);
    walk.push(...node.children);
  }
  const byTime = new Map();
  opened.samples.forEach((id, index) => {
    const name = opened.nodeById(id).functionName;
    const last = index + 1 === opened.samples.length;
    const end = last ? opened.profileEndTime : opened.timestamps[index + 1];
    byTime.set(name, (byTime.get(name) ?? 0) + (end - opened.timestamps[index]) * 1000);
  });
  return { byHits, byTime, nodes };
}

/**
 * Returns a recording whose call tree has `LARGE` nodes, with recursion and with functions that
 * have many callers.
 */
function large() {
  const column = (of) => Array.from({ length: LARGE }, (_, row) => of(row));
  const functions = 1000;
  const some = (of) => Array.from({ length: functions }, (_, row) => of(row));
  // Callers are chosen so that the tree is bushy, and so that a caller calls each function at most
  // once.
  const prefix = column((row) => (row === 0 ? null : Math.floor((row - 1) / 8)));
  const frame = column((row) => (row % 50 === 0 && row > 0 ? (Math.floor((row - 1) / 8) * 7 + ((Math.floor((row - 1) / 8) - 1) % 8)) % functions : (row * 7 + (row - 1) % 8) % functions));
  return {
    meta: { preprocessedProfileVersion: 60, interval: 1, product: "large", startTime: 0 },
    libs: [],
    threads: [{ name: "GeckoMain", pid: "1", tid: 1, processName: "large", samples: { length: LARGE, stack: column((row) => row), timeDeltas: column(() => 1), weight: null, weightType: "samples" } }],
    shared: {
      stackTable: { length: LARGE, prefix, frame },
      frameTable: { length: functions, func: some((row) => row), line: some(() => null) },
      funcTable: { length: functions, name: some((row) => row), resource: some(() => -1) },
      stringArray: some((row) => `function ${row}`),
    },
  };
}

export async function check({ viewer, work, reference, profiler, selftest }, say) {
  const CPUProfileDataModel = await model(viewer, work);
  for (const thread of reference.filter((thread) => thread.samples > 100)) {
    const opened = new CPUProfileDataModel(structuredClone(thread.profile));
    const { byHits, byTime, nodes } = selfTimes(opened);
    say(nodes === thread.profile.nodes.length, `X2 DevTools: "${thread.name}": each of ${nodes} nodes is in one place`);
    const where = `X1 DevTools: "${thread.name}"`;
    const functions = busiest(thread, 0.05);
    for (const [name, us] of functions) {
      say(near(byTime.get(name), us, thread.total, 0.01), `${where}: ${name} has ${us} µs (${Math.round(byTime.get(name))})`);
      const hits = thread.hits.get(name) / thread.samples * thread.total;
      say(near(byHits.get(name), hits, thread.total, 0.02), `${where}: ${name} has its samples in the tables`);
    }
    const sum = [...byTime.values()].reduce((sum, us) => sum + us, 0);
    say(near(sum, thread.total, thread.total, 0.01), `X3 DevTools: "${thread.name}": all times fill the recording`);
  }
  if (selftest) return;
  const input = join(work, "large.json");
  writeFileSync(input, JSON.stringify(large()));
  const output = join(work, "large");
  mkdirSync(output, { recursive: true });
  execFileSync(profiler, ["export", input, "--to", "cpuprofile", "-o", output], { stdio: "pipe" });
  const file = readdirSync(output).find((name) => name.endsWith(".cpuprofile"));
  const begin = performance.now();
  const opened = new CPUProfileDataModel(JSON.parse(readFileSync(join(output, file), "utf8")));
  const nodes = opened.nodes().length;
  const seconds = (performance.now() - begin) / 1000;
  say(nodes > LARGE * 0.9 && seconds < LONGEST_S, `X2 DevTools: a tree of ${nodes} nodes opens in ${seconds.toFixed(2)} s`);
}

/** Changes to a file that the check must notice. */
export const breaks = [
  ["the last half of the samples is another function's", (profile) => {
    const id = profile.nodes.at(-1).id;
    profile.samples.fill(id, profile.samples.length / 2);
  }],
  ["a node has two callers", (profile) => profile.nodes[0].children.push(profile.nodes.at(-1).id)],
  ["a sample is of no node", (profile) => { profile.samples[5] = 1_000_000_000; }],
];
