// Draws a profile as a picture: a lane per thread, a bar per interval, coloured by category; below them where the
// processor time of all processes went, a bar per function, the called below the caller.
//
//   node docs/draw-profile.mjs PROFILE.json[.gz] PICTURE.svg
//
// The picture in the README is made with it from a profile of the example `index_tree`.

import { readFileSync, writeFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";

const WIDTH = 1000;
const LEFT = 150;
const RIGHT = 12;
const BAR = 11;
const GAP = 5;
const FLAME = 14;
const FLAME_ROWS = 12;
const MAIN_THREAD = "GeckoMain";
const COLORS = {
  transparent: "#e8e8ec", blue: "#45a1ff", brown: "#a47c4f", darkgrey: "#737373", green: "#5bd04f", grey: "#c3c3c8",
  lightblue: "#9fd3ff", lightgreen: "#b6e8b0", lightred: "#ffb3b3", magenta: "#ff6bc6", orange: "#ffa436",
  purple: "#b98eff", red: "#ff5c5c", yellow: "#ffe066",
};

function load(file) {
  const bytes = readFileSync(file);
  const profile = JSON.parse(bytes[0] === 0x1f ? gunzipSync(bytes) : bytes);
  if (profile.shared === undefined) throw new Error(`${file} is in the Gecko format; the processed format is what \`save\` writes`);
  const processes = new Map();
  for (const thread of profile.threads) {
    if (!processes.has(thread.pid)) processes.set(thread.pid, { name: thread.processName, threads: [] });
    processes.get(thread.pid).threads.push({ name: thread.name, bars: intervals(thread, profile), ...thread.samples });
  }
  for (const process of processes.values()) {
    process.threads = process.threads
      .filter((thread) => thread.name === MAIN_THREAD || thread.bars.length > 0)
      .sort((a, b) => (b.name === MAIN_THREAD) - (a.name === MAIN_THREAD) || byName(a.name, b.name));
  }
  const [root, ...others] = processes.values();
  return { processes: [root, ...others.sort((a, b) => byName(a.name, b.name))], tree: callTree(profile) };
}

const byName = (a, b) => a.localeCompare(b, "en", { numeric: true });

/** The intervals of a thread, each below the one that it lies in. */
function intervals({ markers }, { shared, meta }) {
  const bars = Array.from({ length: markers.length }, (_, at) => ({
    start: markers.startTime[at],
    end: markers.endTime[at],
    text: markers.data[at]?.path?.split("/").at(-1) ?? shared.stringArray[markers.name[at]],
    category: meta.categories[markers.category[at]],
  }))
    .filter((bar) => bar.start !== null && bar.end !== null)
    .sort((a, b) => a.start - b.start || b.end - a.end);
  const open = [];
  for (const bar of bars) {
    while (open.length > 0 && open.at(-1) <= bar.start) open.pop();
    bar.depth = open.push(bar.end) - 1;
  }
  return bars;
}

/** Processor time of all samples of all processes by function, outermost first; recursion is kept. */
function callTree({ threads, shared }) {
  const { stackTable, frameTable, funcTable, stringArray } = shared;
  const root = { name: "all processes", weight: 0, below: new Map() };
  const nodes = new Map([[null, root]]);
  const nodeOf = (stack) => {
    if (nodes.has(stack)) return nodes.get(stack);
    const above = nodeOf(stackTable.prefix[stack]);
    const name = stringArray[funcTable.name[frameTable.func[stackTable.frame[stack]]]];
    if (!above.below.has(name)) above.below.set(name, { name, weight: 0, below: new Map() });
    nodes.set(stack, above.below.get(name));
    return nodes.get(stack);
  };
  for (const { samples } of threads) {
    for (let at = 0; at < samples.length; at++) {
      const nanoseconds = samples.threadCPUDelta?.[at] ?? 0;
      if (samples.stack[at] === null || !nanoseconds) continue;
      root.weight += nanoseconds;
      for (let stack = samples.stack[at]; stack !== null; stack = stackTable.prefix[stack]) {
        nodeOf(stack).weight += nanoseconds;
      }
    }
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

function draw({ processes, tree }) {
  const all = processes.flatMap((process) => process.threads).flatMap((thread) => thread.bars);
  const [from, to] = [Math.min(...all.map((bar) => bar.start)), Math.max(...all.map((bar) => bar.end))];
  const x = (time) => LEFT + ((time - from) / (to - from)) * (WIDTH - LEFT - RIGHT);
  const out = [];
  const text = (left, top, content, more = "") => out.push(`<text x="${rounded(left)}" y="${top}"${more}>${escaped(content)}</text>`);
  let y = 24;
  for (const { name, threads } of processes) {
    y += 20;
    text(8, y - 5, name, ' class="process"');
    for (const thread of threads) {
      const rows = Math.max(1, ...thread.bars.map((bar) => bar.depth + 1));
      const height = rows * BAR + GAP;
      out.push(`<rect x="${LEFT}" y="${y}" width="${WIDTH - LEFT - RIGHT}" height="${height - 2}" fill="#f6f6f8"/>`);
      text(LEFT - 8, y + BAR - 1, thread.name === MAIN_THREAD ? "main thread" : thread.name, ' text-anchor="end"');
      drawBars(thread.bars, y + 1, x, out, text);
      y += height;
    }
  }
  y = legend(all, y + 22, out, text);
  const lines = grid(from, to, x, y - 40);
  return { body: [...lines, ...out, ...flames(tree, y + 26)], height: y + 26 + FLAME_ROWS * FLAME + 14 };
}

/** The tree of functions, as wide as their processor time. */
function flames(tree, top) {
  const milliseconds = Math.round(tree.weight / 1e6);
  const out = [`<text x="8" y="${top - 7}" class="process">Processor time of all processes: ${milliseconds} ms, by function</text>`];
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
  const plain = name.replace(/<[^<>]*>/g, "").replace(/<[^<>]*>/g, "");
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

const [profile, picture] = process.argv.slice(2);
if (picture === undefined) {
  console.error("usage: node docs/draw-profile.mjs PROFILE.json[.gz] PICTURE.svg");
  process.exit(2);
}
const { body, height } = draw(load(profile));
const style = `text{font:11px sans-serif;fill:#333}.process{font-weight:bold;font-size:12px}.in{font-size:8.5px;fill:#000}.tick{fill:#888;font-size:10px}.flame{font-size:9.5px;fill:#000}`;
writeFileSync(
  picture,
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}"><style>${style}</style>
<rect width="${WIDTH}" height="${height}" fill="#fff"/>
${body.join("\n")}
</svg>
`,
);
