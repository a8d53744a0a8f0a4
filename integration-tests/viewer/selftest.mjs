// Shows that the checks of `check.mjs` and `agree.mjs` can fail.
//
//   node selftest.mjs
//
// The input is a small Gecko profile (version 31) that is written by hand: three processes, four
// threads, two marker types with a schema, a counter, samples with stacks, allocations. Each
// feature that the profiler's own writer uses occurs once, in its smallest form. A pass therefore
// also shows that the viewer opens a profile of this shape. Then each expectation is made wrong
// once, and the profile is corrupted in every way that must be noticed. For `agree.mjs`, a second
// profile represents the same recording in another form, and is changed in everything that is
// compared.

import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { needNode } from "./check.mjs";

needNode(process.argv[1]);

const CHECK = join(dirname(fileURLToPath(import.meta.url)), "check.mjs");
const AGREE = join(dirname(fileURLToPath(import.meta.url)), "agree.mjs");
const WORK = mkdtempSync("/tmp/selftest-");
// A check that leaves files behind leaves them here.
const TEMPORARY = join(WORK, "tmp");
const AT_ONCE = availableParallelism() + 1;
mkdirSync(TEMPORARY);

// ---- the profile ---------------------------------------------------------------------------

const VERSION = 31;
const INSTANT = 0;
const INTERVAL = 1;

const CATEGORIES = [
  { name: "Other", color: "grey", subcategories: ["Other"] },
  { name: "Indexing", color: "blue", subcategories: ["Other"] },
  { name: "Idle", color: "transparent", subcategories: ["Other"] },
];
const IDLE = 2;

// The schemas of the two marker types.
const SCHEMAS = [
  {
    name: "File",
    tooltipLabel: "{marker.name} {marker.data.path}",
    tableLabel: "{marker.data.path} ({marker.data.bytes})",
    chartLabel: "{marker.data.path}",
    display: ["marker-chart", "marker-table", "timeline-overview"],
    data: [
      { key: "path", label: "Path", format: "file-path" },
      { key: "bytes", label: "Size", format: "bytes" },
    ],
  },
  {
    name: "Batch",
    tableLabel: "batch {marker.data.index}",
    chartLabel: "batch {marker.data.index}",
    display: ["marker-chart", "marker-table"],
    data: [{ key: "index", label: "Index", format: "integer" }],
  },
];

const table = (columns, data) => ({
  schema: Object.fromEntries(columns.map((name, index) => [name, index])),
  data,
});

// A label calls code of a library, which calls a leaf in the same library. The leaf is idle.
const FRAMES = ["run", "0x401010", "0x401020"];
const LIB = {
  start: 0x400000,
  end: 0x500000,
  offset: 0,
  arch: "x86_64",
  name: "libwork.so",
  path: "/lib/libwork.so",
  debugName: "libwork.so",
  debugPath: "/lib/libwork.so",
  breakpadId: "000000000000000000000000000000000",
  codeId: "",
};

function thread({ name, processName, pid, tid, markers }) {
  const strings = [...FRAMES, ...new Set(markers.map((marker) => marker.name))];
  return {
    name,
    processType: "default",
    processName,
    pid,
    tid,
    registerTime: 0,
    unregisterTime: null,
    samples: table(
      ["stack", "time", "eventDelay", "threadCPUDelta"],
      [
        [0, 1, 0, 0],
        [2, 2, 0, 4000000],
        [1, 9, 0, 3000000],
      ],
    ),
    markers: table(
      ["name", "startTime", "endTime", "phase", "category", "data"],
      markers.map((m) => [
        strings.indexOf(m.name),
        m.start,
        m.end ?? null,
        m.end === undefined ? INSTANT : INTERVAL,
        1,
        m.data,
      ]),
    ),
    frameTable: table(
      ["location", "relevantForJS", "innerWindowID", "implementation", "line", "column", "category", "subcategory"],
      [0, null, IDLE].map((category, index) => [index, false, 0, null, null, null, category, category === null ? null : 0]),
    ),
    stackTable: table(
      ["prefix", "frame"],
      FRAMES.map((_, index) => [index === 0 ? null : index - 1, index]),
    ),
    stringTable: strings,
  };
}

function processObject({ root, threads, counters, processes }) {
  return {
    meta: {
      version: VERSION,
      interval: 1,
      startTime: 1700000000000,
      shutdownTime: null,
      processType: root ? 0 : 2,
      product: "viewer self-test",
      stackwalk: 0,
      debug: 0,
      categories: CATEGORIES,
      markerSchema: SCHEMAS,
      profilingStartTime: 0,
      profilingEndTime: 20,
      sampleUnits: { time: "ms", eventDelay: "ms", threadCPUDelta: "ns" },
    },
    libs: [LIB],
    pages: [],
    pausedRanges: [],
    counters,
    threads,
    processes,
  };
}

const file = (path, bytes, start, end) => ({
  name: "File",
  start,
  end,
  data: { type: "File", path, bytes },
});
const STACK = { samples: table(["stack", "time"], [[1, 6]]) };
const allocation = (size) => ({
  name: "Native allocation",
  start: 6,
  data: { type: "Native allocation", size, memoryAddress: 4096, threadId: 110, stack: STACK },
});
const batch = (index, start) => ({ name: "Batch", start, data: { type: "Batch", index } });

const memory = {
  name: "malloc",
  category: "Memory",
  description: "Bytes in use",
  samples: table(
    ["time", "count", "number"],
    [
      [0, 0, 0],
      [1, 4096, 1],
      [2, 1024, 1],
      [9, -512, 0],
    ],
  ),
};

/** Returns the profile as an object, which JSON.stringify turns into a file. */
function fixture() {
  const worker = (number) =>
    processObject({
      threads: [
        thread({
          name: "GeckoMain",
          processName: `worker ${number}`,
          pid: 100 + number,
          tid: 100 + number,
          markers: [file(`/data/${number}.txt`, 2048, 2, 4), file("/data/b.txt", 1048576, 5, 7), batch(number, 8)],
        }),
      ],
      counters: number === 1 ? [memory] : [],
      processes: [],
    });
  return processObject({
    root: true,
    threads: [
      thread({ name: "GeckoMain", processName: "parent", pid: 100, tid: 100, markers: [batch(0, 1)] }),
      thread({
        name: "Collector",
        processName: "parent",
        pid: 100,
        tid: 110,
        markers: [batch(7, 3), batch(8, 4), { name: "note", start: 5, data: null }, allocation(1000)],
      }),
    ],
    counters: [],
    processes: [worker(1), worker(2)],
  });
}

// ---- right and wrong expectations ----------------------------------------------------------

const [CALLER, LEAF] = ["libwork.so!0x401010", "libwork.so!0x401020"];
const STACKS = {
  selfSamples: { run: 1, [CALLER]: 1, [LEAF]: 1, nowhere: 0 },
  totalSamples: { run: 3, [CALLER]: 2, [LEAF]: { min: 1, max: 1 } },
  busySelfSamples: { run: 1, [CALLER]: 1, [LEAF]: 0 },
  busyTotalSamples: { run: 2, [CALLER]: 1 },
  allocatedBytes: { run: 0, [CALLER]: 1000 },
  cpuMs: { min: 7, max: 7 },
};

const WRONG_STACKS = {
  selfSamples: { run: 2, nowhere: 1 },
  totalSamples: { run: { max: 2 } },
  busySelfSamples: { [LEAF]: 1 },
  busyTotalSamples: { run: 3 },
  allocatedBytes: { [CALLER]: 999 },
  cpuMs: 8,
};

const RIGHT = {
  processes: [
    { name: "parent", threads: ["GeckoMain", "Collector"], markers: { Batch: 3, note: 1 }, samples: 6, complete: true, cpuMs: 14 },
    { name: "worker 1", pid: 101, threads: 1, markers: { File: 2, Batch: { min: 1, max: 1 } } },
    { name: "worker 2", threads: { min: 1 }, markers: { File: 2, Nothing: 0 } },
  ],
  threads: [{ process: "parent", name: "Collector", markers: { Batch: 2, note: 1 }, samples: 3, complete: true, ...STACKS }],
  markerLabels: [
    { process: "worker 1", marker: "File", label: "/data/1.txt (2,048B)" },
    { marker: "File", label: "/data/b.txt (1.05MB)", count: 2 },
    { marker: "File", label: "/data/1.txt (2,048B)", search: "path:/data/1", count: 1 },
    { process: "parent", marker: "Batch", label: "batch 7", kind: "chart" },
    { process: "worker 2", marker: "File", label: "File /data/2.txt", kind: "tooltip" },
  ],
  markerFields: [{ process: "worker 2", marker: "File", field: "Size", value: "2,048B", count: 1 }],
  schemas: ["Batch", { name: "File", fields: ["Path", "Size"] }],
  counters: [
    {
      process: "worker 1",
      name: "malloc",
      label: "Memory",
      unit: "bytes",
      graphType: "line-accumulated",
      samples: 4,
      busyRanges: { min: 1 },
      sum: { min: 1 },
    },
  ],
  counterCount: 1,
  meta: { product: "viewer self-test", interval: 1, durationMs: 20 },
};

/** [a wrong expectation, the lines that must fail], one run each. All other lines must pass. */
const WRONG = [
  [
    {
      processes: [
        { name: "parent", threads: ["GeckoMain"], markers: { Batch: 4 }, samples: 7, complete: true },
        { name: "worker 1", pid: 102 },
        { name: "worker 2", count: 2, threads: 2, markers: { File: { min: 3 }, Batch: { max: 0 }, Nothing: 1 } },
      ],
    },
    [
      "processes: 4: saw 3",
      'process "parent": threads GeckoMain: saw Collector, GeckoMain',
      'process "parent": markers "Batch": 4: saw 3',
      'process "parent": no other markers: saw note',
      'process "parent": samples: 7: saw 6',
      'process "worker 1" (102) is there: 1: saw 0',
      'process "worker 2" is there: 2: saw 1',
      'process "worker 2": threads: 2: saw 1',
      'process "worker 2": markers "File": 3..: saw 2',
      'process "worker 2": markers "Batch": 0..0: saw 1',
      'process "worker 2": markers "Nothing": 1: saw 0',
    ],
  ],
  [
    {
      processes: [{ name: "parent" }],
      moreProcesses: true,
      threads: [
        { process: "parent", name: "Collector", markers: { Batch: 1 }, samples: 4, complete: true, ...WRONG_STACKS },
        { process: "worker 1", name: "Collector" },
      ],
      markerLabels: [
        { process: "worker 1", marker: "File", label: "/data/2.txt (2,048B)" },
        { marker: "File", label: "/data/b.txt (1.05MB)", count: 1 },
        { process: "parent", marker: "Batch", label: "batch 9", kind: "chart" },
        { process: "parent", marker: "Batch", label: "batch 7", kind: "tooltip" },
      ],
      markerFields: [
        { process: "worker 2", marker: "File", field: "Path", value: "2,048B" },
        { marker: "File", field: "Path", value: "/data/1.txt", search: "path:/data/2" },
      ],
      schemas: ["Missing", { name: "File", fields: ["Size", "Path"] }],
      counters: [
        { process: "worker 2", name: "malloc" },
        { process: "worker 1", name: "malloc", label: "malloc", unit: "percent", graphType: "line-rate", samples: 5, busyRanges: 0, sum: 0 },
      ],
      counterCount: 2,
      opensOn: { process: "parent", thread: "Collector", marker: "File", marginMs: 5 },
      meta: { product: "something else" },
    },
    [
      'thread "Collector" of "parent": markers "Batch": 1: saw 2',
      'thread "Collector" of "parent": no other markers: saw note',
      'thread "Collector" of "parent": samples: 4: saw 3',
      'thread "Collector" of "parent": milliseconds of processor time: 8: saw 7',
      'thread "Collector" of "parent": selfSamples of "run": 2: saw 1',
      'thread "Collector" of "parent": selfSamples of "nowhere": 1: saw 0',
      'thread "Collector" of "parent": totalSamples of "run": 0..2: saw 3',
      `thread "Collector" of "parent": busySelfSamples of "${LEAF}": 1: saw 0`,
      'thread "Collector" of "parent": busyTotalSamples of "run": 3: saw 2',
      `thread "Collector" of "parent": allocatedBytes of "${CALLER}": 999: saw 1000`,
      'thread "Collector" of "worker 1" is there',
      'table label of "File" in "worker 1" is "/data/2.txt (2,048B)": saw 0 times',
      'table label of "File" is "/data/b.txt (1.05MB)": saw 2 times',
      'chart label of "Batch" in "parent" is "batch 9": saw 0 times; there are "batch 0", "batch 7", "batch 8"',
      'tooltip label of "Batch" in "parent" is "batch 7": saw 0 times',
      'field "Path" of "File" is "2,048B": saw 0 times',
      'field "Path" of "File" is "/data/1.txt": saw 0 times; there are "/data/2.txt"',
      'there are markers of type "Missing": saw ',
      'type "File" shows the fields Size, Path: saw Path, Size',
      'counter "malloc" of "worker 2" is there',
      'counter "malloc" of "worker 1": label malloc: saw Memory',
      'counter "malloc" of "worker 1": unit percent: saw bytes',
      'counter "malloc" of "worker 1": graphType line-rate: saw line-accumulated',
      'counter "malloc" of "worker 1": samples: 5: saw 4',
      'counter "malloc" of "worker 1": ranges with changes: 0: saw ',
      'counter "malloc" of "worker 1": sum: 0: saw ',
      'counters: 2: saw 1',
      'it opens on thread "Collector" of "parent": saw GeckoMain of parent',
      'it opens on one marker "File": 1: saw 0',
      'the range is that of "File" and 5 ms on both sides: saw ',
      'meta product is "something else": saw "viewer self-test"',
    ],
  ],
];

/** [name, the change to the profile, the line that must fail]. The expectation is a weak one. */
const BROKEN = [
  ["a cut file", (text) => text.slice(0, -100), "the viewer answers"],
  ["no JSON", () => "profile", "the viewer answers"],
  ["a version from the future", edit((p) => (p.meta.version = 999)), "the viewer answers"],
  ["a process without schemas", edit((p) => delete p.processes[1].meta.markerSchema), "the viewer answers"],
  ["no threads", edit((p) => ((p.threads = []), (p.processes = []))), "the viewer answers"],
  ["an unknown phase", edit((p) => (p.threads[1].markers.data[0][3] = 9)), "the viewer answers"],
  ["a frame without a name", edit((p) => (p.threads[0].frameTable.data[0][0] = 99)), "the viewer answers"],
  ["a marker without a name", edit((p) => (p.threads[1].markers.data[0][0] = 99)), "every marker has a name"],
  ["a marker outside the range", edit((p) => (p.threads[1].markers.data[0][1] = 50)), "lie in the shown range"],
  ["a function that is data", edit((p) => (p.threads[1].stringTable[0] = "GCC_except_table141")), "every function is code"],
  ["a payload without a schema", edit((p) => (p.threads[1].markers.data[0][5].type = "X")), '"X" has a schema'],
  ["an unknown format", edit((p) => (p.meta.markerSchema[0].data[0].format = "sausage")), "complains of nothing"],
  ["a label in no form", edit((p) => (p.meta.markerSchema[0].tableLabel = "{path}")), "complains of nothing"],
];

/** Expectations that are empty or misspelt. The check must refuse to run. */
const UNUSABLE = [
  ["an expectation of nothing", {}],
  ["an unknown key", { proceses: [] }],
  ["an unknown key inside", { processes: [{ name: "parent", marker: {} }] }],
  ["a missing key", { processes: [{ threads: 2 }] }],
  ["a count of no kind", { processes: [{ name: "parent", markers: { File: {} } }] }],
  ["a count of samples of no kind", { threads: [{ process: "parent", name: "GeckoMain", selfSamples: { run: "1" } }] }],
  ["a label of no kind", { markerLabels: [{ marker: "File", label: "x", kind: "page" }] }],
];

// ---- two files of one recording -------------------------------------------------------------

/** The same profile, with a marker that has a stack and is not an allocation. */
const forAgree = edit((p) => (p.threads[1].markers.data[0][5].stack = STACK));

/** The same recording as the processed format represents it: code by library and address there. */
const inOtherWords = (text) => text.replace(/"0x40(10[12]0)"/g, '"libwork.so+0x$1"');

/** [what is different, the change, the line that must fail]. */
const DIFFERENT = [
  ["a process's name", edit((p) => (p.processes[0].threads[0].processName = "other")), "processes"],
  ["a missing thread", edit((p) => p.threads.pop()), "threads"],
  ["a thread's name", edit((p) => (p.threads[1].name = "other")), "threads"],
  ["a missing sample", edit((p) => p.threads[0].samples.data.pop()), "threads"],
  ["a missing marker", edit((p) => p.threads[1].markers.data.splice(1, 1)), "Collector 110: markers"],
  ["a missing allocation", edit((p) => p.threads[1].markers.data.pop()), "Collector 110: allocations"],
  ["an allocation's bytes", edit((p) => (p.threads[1].markers.data[3][5].size = 1001)), "Collector 110: allocations"],
  ["a marker's name", edit((p) => (p.threads[1].stringTable[3] = "other")), "Collector 110: markers"],
  ["a marker's category", edit((p) => (p.threads[1].markers.data[0][4] = 0)), "Collector 110: markers"],
  ["a marker's field", edit((p) => (p.processes[0].threads[0].markers.data[0][5].bytes = 1)), "worker 1 101 / GeckoMain 101: markers"],
  ["a marker's beginning", edit((p) => (p.threads[1].markers.data[1][1] += 0.001)), "Collector 110: when they began"],
  ["a marker's end", edit((p) => (p.processes[0].threads[0].markers.data[0][2] += 0.001)), "how long they lasted"],
  ["a marker without its stack", edit((p) => delete p.threads[1].markers.data[0][5].stack), "Collector 110: markers"],
  ["a marker's stack", edit((p) => (p.threads[1].markers.data[0][5].stack.samples.data[0][0] = 0)), "stacks of markers"],
  ["a sample's stack", edit((p) => (p.threads[0].samples.data[1][0] = 1)), "GeckoMain 100: call tree"],
  ["an idle sample", edit((p) => (p.threads[0].frameTable.data[2][6] = null)), "call tree without idle samples"],
  ["a function's name", edit((p) => (p.threads[0].stringTable[0] = "walk")), "GeckoMain 100: call tree"],
  ["a function's address", edit((p) => (p.threads[0].stringTable[2] = "libwork.so+0x1030")), "GeckoMain 100: call tree"],
  ["a sample's processor time", edit((p) => (p.threads[0].samples.data[1][3] += 10000)), "processor time"],
  ["a counter's name", edit((p) => (p.processes[0].counters[0].name = "other")), "counters"],
  ["a counter's value", edit((p) => (p.processes[0].counters[0].samples.data[2][1] = 1)), "counters"],
  ["a file of which the viewer complains", edit((p) => (p.meta.markerSchema[0].data[0].format = "sausage")), "complains of nothing"],
  ["a file that the viewer does not open", (text) => text.slice(0, -100), "the viewer answers"],
];

function edit(change) {
  return (text) => {
    const profile = JSON.parse(text);
    change(profile);
    return JSON.stringify(profile);
  };
}

// ---- running them --------------------------------------------------------------------------

let failures = 0;

function say(good, what, output = "") {
  console.log(`${good ? "ok  " : "FAIL"} ${what}`);
  if (good) return;
  failures += 1;
  console.log(output.replace(/^/gm, "     | "));
}

function write(name, content) {
  const file = join(WORK, name);
  writeFileSync(file, typeof content === "object" && !Buffer.isBuffer(content) ? JSON.stringify(content) : content);
  return file;
}

function run(profile, expect, program = CHECK) {
  return new Promise((resolve) => {
    const env = { ...process.env, TMPDIR: TEMPORARY };
    const child = spawn(process.execPath, [program, profile, expect], { env, stdio: ["ignore", "pipe", "inherit"] });
    let output = "";
    child.stdout.on("data", (text) => (output += text));
    child.on("close", (code) => resolve({ code, output, failed: output.split("\n").filter((l) => l.startsWith("FAIL")) }));
  });
}

/** Runs `check` for every item, some at the same time: a check mostly waits. */
async function forEach(items, check) {
  const left = [...items.entries()];
  const worker = async () => {
    for (let next = left.shift(); next; next = left.shift()) await check(next[1], next[0]);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

async function rightPasses(text) {
  const expect = write("right.json", RIGHT);
  await forEach([write("plain.json", text), write("packed.json.gz", gzipSync(text))], async (profile) => {
    const { code, output, failed } = await run(profile, expect);
    say(code === 0 && failed.length === 0, `a right profile passes: ${profile.slice(WORK.length + 1)}`, output);
  });
}

async function wrongFails(text) {
  const profile = write("plain.json", text);
  await forEach(WRONG, async ([expect, lines], index) => {
    const { code, output, failed } = await run(profile, write(`wrong-${index}.json`, expect));
    for (const line of lines) say(failed.some((f) => f.includes(line)), `noticed: ${line}`, output);
    const exact = code === 1 && failed.length === lines.length;
    say(exact, `wrong expectations ${index + 1}: exit code 1, these ${lines.length} and no more`, output);
  });
}

async function brokenFails(text) {
  const weak = write("weak.json", { processes: [{ name: "parent" }], moreProcesses: true });
  await forEach(BROKEN, async ([name, change, line], index) => {
    const { code, output, failed } = await run(write(`broken-${index}.json`, change(text)), weak);
    say(code === 1 && failed.some((f) => f.includes(line)), `refused: ${name}`, output);
  });
}

async function unusableIsRefused(text) {
  const profile = write("plain.json", text);
  await forEach(UNUSABLE, async ([name, expect], index) => {
    const { code, output } = await run(profile, write(`unusable-${index}.json`, expect));
    say(code === 2, `cannot run: ${name}`, output);
  });
  const { code, output } = await run(join(WORK, "absent.json"), write("right.json", RIGHT));
  say(code === 2, "cannot run: no such profile", output);
}

async function differencesAreNoticed(text) {
  const first = forAgree(text);
  const gecko = write("gecko.json", first);
  const same = await run(gecko, write("processed.json", inOtherWords(first)), AGREE);
  say(same.code === 0 && same.failed.length === 0, "two files of one recording agree", same.output);
  await forEach(DIFFERENT, async ([name, change, line], index) => {
    const other = write(`processed-${index}.json`, change(inOtherWords(first)));
    const { code, output, failed } = await run(gecko, other, AGREE);
    say(code === 1 && failed.some((f) => f.includes(line)), `a difference is noticed: ${name}`, output);
  });
  const { code, output } = await run(gecko, join(WORK, "absent.json"), AGREE);
  say(code === 2, "cannot run: no second file", output);
}

/**
 * Returns the files and processes that are left. A daemon of a check has the directory in its
 * environment.
 */
function leftBehind() {
  const holds = (pid) => {
    try {
      return readFileSync(`/proc/${pid}/environ`, "utf8").includes(`HOME=${TEMPORARY}`);
    } catch {
      return false;
    }
  };
  return [...readdirSync(TEMPORARY), ...readdirSync("/proc").filter((pid) => /^\d+$/.test(pid) && holds(pid))];
}

try {
  const text = JSON.stringify(fixture());
  await rightPasses(text);
  await wrongFails(text);
  await brokenFails(text);
  await unusableIsRefused(text);
  await differencesAreNoticed(text);
  const left = leftBehind();
  say(left.length === 0, "no daemon and no file is left behind", left.join("\n"));
} finally {
  rmSync(WORK, { recursive: true, force: true });
}
console.log(failures === 0 ? "self-test passed" : `self-test: ${failures} failed`);
process.exitCode = failures === 0 ? 0 : 1;
