// Draws a profile as a picture: a lane per thread with a bar per interval, coloured by category,
// and below the lanes a flame graph of all processes, in which callees are below their callers.
//
//   node docs/draw-profile.mjs PROFILE.json[.gz] PICTURE.svg [OPTION...]
//
//   --flame WHAT      the measure of the flame graph: "cpu", processor time (the default); "wait",
//                     waiting time; "retained", the bytes that are allocated and not freed
//   --thread TEXT     draws only threads whose name contains TEXT
//   --counter NAME    also draws the counter with this name, in every process that has it; may be
//                     repeated
//   --from MS, --to MS   draws the lanes of this time only
//   --flows           also draws the flows between markers
//   --no-lanes        draws only the functions
//   --no-functions    draws only the lanes
//
// It drew the picture in the README from a profile of the example `index_tree`, the pictures in
// docs/find-it.md from a profile of `find_it`, and that of integrations/tracing from one of `server`.

import { readFileSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { gunzipSync } from "node:zlib";

const WIDTH = 1000;
const LEFT = 150;
const RIGHT = 12;
const BAR = 11;
const GAP = 5;
const COUNTER = 40;
const FLAME = 14;
const FLAME_ROWS = 12;
const MAIN_THREAD = "GeckoMain";
const COLORS = {
  transparent: "#e8e8ec", blue: "#45a1ff", brown: "#a47c4f", darkgrey: "#737373", green: "#5bd04f", grey: "#c3c3c8",
  lightblue: "#9fd3ff", lightgreen: "#b6e8b0", lightred: "#ffb3b3", magenta: "#ff6bc6", orange: "#ffa436",
  purple: "#b98eff", red: "#ff5c5c", yellow: "#ffe066",
};

function load(file, options) {
  const bytes = readFileSync(file);
  const profile = JSON.parse(bytes[0] === 0x1f ? gunzipSync(bytes) : bytes);
  if (profile.shared === undefined) throw new Error(`${file} is in the Gecko format; the processed format is what \`save\` writes`);
  const processes = new Map();
  const isDrawn = ({ name }) => name.includes(options.thread ?? "");
  for (const thread of profile.threads) {
    if (!processes.has(thread.pid)) processes.set(thread.pid, { name: thread.processName, threads: [], counters: [] });
    if (isDrawn(thread)) processes.get(thread.pid).threads.push({ name: thread.name, bars: intervals(thread, profile, options), flows: flowsOf(thread, options) });
  }
  for (const counter of profile.counters ?? []) {
    if (options.counter?.includes(counter.name)) processes.get(counter.pid)?.counters.push(counterLine(counter));
  }
  for (const process of processes.values()) {
    process.threads = process.threads
      .filter((thread) => (thread.name === MAIN_THREAD && !options.thread) || thread.bars.length > 0)
      .sort((a, b) => (b.name === MAIN_THREAD) - (a.name === MAIN_THREAD) || byName(a.name, b.name));
  }
  const [root, ...others] = [...processes.values()].filter((process) => !options.thread || process.threads.length > 0);
  const threads = profile.threads.filter(isDrawn);
  return { processes: [root, ...others.sort((a, b) => byName(a.name, b.name))], tree: callTree(threads, profile, options.flame) };
}

const byName = (a, b) => a.localeCompare(b, "en", { numeric: true });

/** The text in a bar: the last part of a marker's path, or its name. */
function textOf(data, name) {
  const isSpan = data?.type?.startsWith("Span ");
  return isSpan ? name : (data?.path?.split("/").at(-1) ?? name);
}

/** The intervals of a thread, each below the one that it lies in. */
function intervals({ markers }, { shared, meta }, { from = -Infinity, to = Infinity }) {
  const bars = Array.from({ length: markers.length }, (_, at) => ({
    start: markers.startTime[at],
    end: markers.endTime[at],
    text: textOf(markers.data[at], shared.stringArray[markers.name[at]]),
    category: meta.categories[markers.category[at]],
  }))
    .filter((bar) => bar.start !== null && bar.end !== null && bar.start < to && bar.end > from)
    .map((bar) => ({ ...bar, start: Math.max(bar.start, from), end: Math.min(bar.end, to) }))
    .sort((a, b) => a.start - b.start || b.end - a.end);
  const open = [];
  for (const bar of bars) {
    while (open.length > 0 && open.at(-1) <= bar.start) open.pop();
    bar.depth = open.push(bar.end) - 1;
  }
  return bars;
}

/** The ends of flows of a thread. */
function flowsOf({ markers }, { flows, from = -Infinity, to = Infinity }) {
  if (!flows) return [];
  return Array.from({ length: markers.length }, (_, at) => ({ id: markers.data[at]?.flow, time: markers.startTime[at] }))
    .filter(({ id, time }) => id !== undefined && time !== null && time >= from && time <= to);
}

/** The values of a counter that accumulates, as points of a line. */
function counterLine({ name, samples }) {
  let [time, value] = [0, 0];
  const points = samples.count.map((count, at) => {
    time += samples.timeDeltas?.[at] ?? samples.time[at] - time;
    return { time, value: (value += count) };
  });
  return { name, points, most: Math.max(...points.map((point) => point.value)) };
}

/** The measures of a flame graph: how to weigh the stacks of a thread, and the text above it. */
const FLAMES = {
  cpu: {
    text: (sum) => `Processor time: ${Math.round(sum / 1e6)} ms, by function`,
    rows: ({ samples }) => samples.stack.map((stack, at) => [stack, samples.threadCPUDelta?.[at] ?? 0]),
  },
  wait: {
    text: (sum) => `Waiting of all threads together: ${Math.round(sum)} ms, by function`,
    rows: ({ samples }) => samples.stack.map((stack, at) => [stack, samples.threadCPUDelta?.[at] ? 0 : samples.timeDeltas[at]]),
  },
  retained: {
    text: (sum) => `Memory that was allocated and not freed: ${(sum / 2 ** 20).toFixed(1)} MiB, by function`,
    rows: ({ nativeAllocations }) => retained(nativeAllocations),
  },
};

/** The stacks of the allocations without a free, with their bytes. */
function retained(allocations) {
  const open = new Map();
  for (let at = 0; at < (allocations?.length ?? 0); at++) {
    const address = allocations.memoryAddress[at];
    if (allocations.weight[at] < 0) open.delete(address);
    else open.set(address, [allocations.stack[at], allocations.weight[at]]);
  }
  return [...open.values()];
}

/** The weights of all stacks of these threads by function, outermost first; recursion is kept. */
function callTree(threads, { shared }, flame = "cpu") {
  const { stackTable, frameTable, funcTable, stringArray } = shared;
  const root = { name: "all", weight: 0, below: new Map() };
  const nodes = new Map([[null, root]]);
  const nodeOf = (stack) => {
    if (nodes.has(stack)) return nodes.get(stack);
    const above = nodeOf(stackTable.prefix[stack]);
    const name = stringArray[funcTable.name[frameTable.func[stackTable.frame[stack]]]];
    if (!above.below.has(name)) above.below.set(name, { name, weight: 0, below: new Map() });
    nodes.set(stack, above.below.get(name));
    return nodes.get(stack);
  };
  for (const [leaf, weight] of threads.flatMap(FLAMES[flame].rows)) {
    if (leaf === null || !weight) continue;
    root.weight += weight;
    for (let stack = leaf; stack !== null; stack = stackTable.prefix[stack]) nodeOf(stack).weight += weight;
  }
  return skipBeginning(root);
}

/** Leaves out how every thread begins, before it comes to the program's own functions. */
function skipBeginning(root) {
  const begins =
    /call_once|spawn_unchecked|lang_start|short_backtrace|thread_start|start_thread|catch_unwind|do_call|AssertUnwindSafe|^\{closure|^_start|^__libc|^main$|^_*clone|\+0x/;
  const flat = (node) =>
    [...node.below.values()].flatMap((child) => (begins.test(child.name) && child.below.size > 0 ? flat(child) : [child]));
  const below = new Map();
  for (const child of flat(root)) {
    const same = below.get(child.name);
    below.set(child.name, same === undefined ? child : merged(same, child));
  }
  return { ...root, below };
}

function merged(one, other) {
  const below = new Map(one.below);
  for (const [name, child] of other.below) below.set(name, below.has(name) ? merged(below.get(name), child) : child);
  return { name: one.name, weight: one.weight + other.weight, below };
}

const escaped = (text) => text.replace(/[<>&]/g, (c) => ({ "<": "&lt;", ">": "&gt;", "&": "&amp;" })[c]);
const rounded = (number) => Number(number.toFixed(1));

/** A step of 1, 2 or 5 times a power of ten, so that there are about ten of them. */
function stepFor(length) {
  const power = 10 ** Math.floor(Math.log10(length / 10));
  return [1, 2, 5, 10].map((n) => n * power).find((step) => length / step <= 12);
}

function draw({ processes, tree }, options) {
  const flameHeight = rowsOf(tree) * FLAME + 14;
  if (options["no-lanes"]) return { body: flames(tree, 26, options.flame), height: 26 + flameHeight };
  const all = processes.flatMap((process) => process.threads).flatMap((thread) => thread.bars);
  const [from, to] = [Math.min(...all.map((bar) => bar.start)), Math.max(...all.map((bar) => bar.end))];
  const x = (time) => LEFT + ((time - from) / (to - from)) * (WIDTH - LEFT - RIGHT);
  const out = [];
  const ends = new Map();
  const text = (left, top, content, more = "") => out.push(`<text x="${rounded(left)}" y="${top}"${more}>${escaped(content)}</text>`);
  let y = 24;
  for (const { name, threads, counters } of processes) {
    y += 20;
    text(8, y - 5, name, ' class="process"');
    for (const counter of counters) {
      out.push(`<rect x="${LEFT}" y="${y}" width="${WIDTH - LEFT - RIGHT}" height="${COUNTER - 2}" fill="#f6f6f8"/>`);
      text(LEFT - 8, y + COUNTER / 2 + 4, counter.name, ' text-anchor="end"');
      drawCounter(counter, y, x, [from, to], out);
      y += COUNTER;
    }
    for (const thread of threads) {
      const rows = Math.max(1, ...thread.bars.map((bar) => bar.depth + 1));
      const height = rows * BAR + GAP;
      out.push(`<rect x="${LEFT}" y="${y}" width="${WIDTH - LEFT - RIGHT}" height="${height - 2}" fill="#f6f6f8"/>`);
      text(LEFT - 8, y + BAR - 1, thread.name === MAIN_THREAD ? "main thread" : thread.name, ' text-anchor="end"');
      drawBars(thread.bars, y + 1, x, out, text);
      for (const { id, time } of thread.flows) {
        const depth = thread.bars.filter((bar) => bar.start <= time && time <= bar.end).length;
        ends.set(id, [...(ends.get(id) ?? []), { time, y: y + Math.max(0, depth - 0.5) * BAR }]);
      }
      y += height;
    }
  }
  for (const flow of ends.values()) drawFlow(flow, x, out);
  y = legend(all, y + 22, out, text);
  const lines = grid(from, to, x, y - 40);
  if (options["no-functions"]) return { body: [...lines, ...out], height: y };
  return { body: [...lines, ...out, ...flames(tree, y + 26, options.flame)], height: y + 26 + flameHeight };
}

/** Draws a flow as an arrow from its first end to each of the others. */
function drawFlow(ends, x, out) {
  const [first, ...others] = ends.sort((a, b) => a.time - b.time);
  const from = [rounded(x(first.time)), rounded(first.y)];
  for (const other of others) {
    const to = [rounded(x(other.time)), rounded(other.y)];
    const bend = rounded((from[1] + to[1]) / 2);
    const tip = other.y > first.y ? -4 : 4;
    out.push(`<path fill="none" stroke="#4a4a55" d="M${from}C${from[0]} ${bend} ${to[0]} ${bend} ${to}"/>`);
    out.push(`<path fill="#4a4a55" d="M${to}l-2.5 ${tip}h5z"/>`);
  }
}

/** The area below the line of a counter. */
function drawCounter({ points, most }, top, x, [from, to], out) {
  const bottom = top + COUNTER - 3;
  const level = (value) => rounded(bottom - (Math.max(0, value) / Math.max(1, most)) * (COUNTER - 6));
  const valueAt = (time) => points.findLast((point) => point.time <= time)?.value ?? 0;
  const seen = [{ time: from, value: valueAt(from) }, ...points.filter(({ time }) => time > from && time < to), { time: to, value: valueAt(to) }];
  const line = seen.map(({ time, value }) => `L${rounded(x(time))} ${level(value)}`).join("");
  out.push(`<path fill="${COLORS.orange}" fill-opacity=".6" d="M${rounded(x(seen[0].time))} ${bottom}${line}V${bottom}z"/>`);
}

/** The number of rows below this function. Boxes of less than a pixel are not drawn. */
function rowsOf(node, all = node.weight) {
  const wide = [...node.below.values()].filter((child) => (child.weight / all) * WIDTH >= 1);
  return Math.min(FLAME_ROWS, Math.max(0, ...wide.map((child) => 1 + rowsOf(child, all))));
}

/** Draws the tree of functions; the width of a box is its weight. */
function flames(tree, top, flame = "cpu") {
  const out = [`<text x="8" y="${top - 7}" class="process">${FLAMES[flame].text(tree.weight)}</text>`];
  const drawNode = (node, left, width, row) => {
    if (width < 1 || row >= FLAME_ROWS) return;
    if (row >= 0) {
      const y = top + row * FLAME;
      const percent = ((100 * node.weight) / tree.weight).toFixed(1);
      out.push(`<rect x="${rounded(left)}" y="${y}" width="${Math.max(0.5, rounded(width - 0.6))}" height="${FLAME - 1}" fill="${warm(node.name)}"><title>${escaped(node.name)} ${percent} %</title></rect>`);
      const name = shortened(node.name, (width - 6) / 5.3);
      if (name !== "") out.push(`<text x="${rounded(left + 3)}" y="${y + 10}" class="flame">${escaped(name)}</text>`);
    }
    for (const child of [...node.below.values()].sort((a, b) => b.weight - a.weight)) {
      const share = (child.weight / tree.weight) * (WIDTH - 8 - RIGHT);
      drawNode(child, left, share, row + 1);
      left += share;
    }
  };
  drawNode(tree, 8, WIDTH - 8 - RIGHT, -1);
  return out;
}

/** A colour for a function: the same in every picture, near its kin of the same crate. */
function warm(name) {
  const hash = (text) => [...text].reduce((sum, c) => (sum * 31 + c.charCodeAt(0)) >>> 0, 7);
  return `hsl(${hash(name.split("::")[0]) % 60 + 8} 80% ${70 + (hash(name) % 12)}%)`;
}

/** As much of a path's end as there is room for. */
function shortened(name, room) {
  const plain = name.replace(/<[^<>]*>/g, "").replace(/<[^<>]*>/g, "").replace(/^::/, "");
  const parts = plain.split("::");
  while (parts.length > 1 && parts.join("::").length > room) parts.shift();
  const text = parts.join("::");
  return text.length <= room ? text : room > 6 ? `${text.slice(0, room - 1)}…` : "";
}

function drawBars(bars, top, x, out, text) {
  const shapes = new Map();
  for (const bar of bars) {
    const [left, width] = [rounded(x(bar.start)), Math.max(0.6, rounded(x(bar.end) - x(bar.start) - 0.3))];
    const shape = `M${left} ${top + bar.depth * BAR}h${rounded(width)}v${BAR - 1}h-${rounded(width)}z`;
    shapes.set(bar.category.color, (shapes.get(bar.category.color) ?? "") + shape);
  }
  for (const [color, shape] of shapes) out.push(`<path fill="${COLORS[color]}" d="${shape}"/>`);
  for (const bar of bars) {
    const room = x(bar.end) - x(bar.start) - 4;
    if (bar.text.length * 4.9 < room) text(x(bar.start) + 2, top + bar.depth * BAR + 8, bar.text, ' class="in"');
  }
}

function grid(from, to, x, bottom) {
  const lines = [];
  const step = stepFor(to - from);
  for (let time = 0; time <= to - from; time += step) {
    const at = rounded(x(from + time));
    lines.push(`<path stroke="#d8d8de" d="M${at} 24V${bottom}"/>`);
    if (at < WIDTH - 40) lines.push(`<text x="${at + 2}" y="18" class="tick">${Number(time.toFixed(3))} ms</text>`);
  }
  return lines;
}

function legend(bars, y, out, text) {
  let left = LEFT;
  const names = new Map(bars.map((bar) => [bar.category.name, bar.category.color]));
  for (const [name, color] of names) {
    out.push(`<rect x="${left}" y="${y - 9}" width="11" height="11" fill="${COLORS[color]}"/>`);
    text(left + 15, y, name);
    left += 40 + name.length * 7;
  }
  return y + 14;
}

const OPTIONS = {
  flame: { type: "string" }, thread: { type: "string" }, counter: { type: "string", multiple: true },
  from: { type: "string" }, to: { type: "string" }, "no-lanes": { type: "boolean" }, flows: { type: "boolean" }, "no-functions": { type: "boolean" },
};
const { values, positionals } = parseArgs({ options: OPTIONS, allowPositionals: true });
const [profile, picture] = positionals;
if (picture === undefined || (values.flame !== undefined && FLAMES[values.flame] === undefined)) {
  console.error("usage: node docs/draw-profile.mjs PROFILE.json[.gz] PICTURE.svg [OPTION...]; the file's first lines list the options");
  process.exit(2);
}
const number = (text) => (text === undefined ? undefined : Number(text));
const options = { ...values, from: number(values.from), to: number(values.to) };
const { body, height } = draw(load(profile, options), options);
const style = `text{font:11px sans-serif;fill:#333}.process{font-weight:bold;font-size:12px}.in{font-size:8.5px;fill:#000}.tick{fill:#888;font-size:10px}.flame{font-size:9.5px;fill:#000}`;
writeFileSync(
  picture,
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}"><style>${style}</style>
<rect width="${WIDTH}" height="${height}" fill="#fff"/>
${body.join("\n")}
</svg>
`,
);
