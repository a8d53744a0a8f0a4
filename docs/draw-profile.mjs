// Draws a profile as a picture: a lane per thread, a bar per interval, coloured by category.
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
const MAIN_THREAD = "GeckoMain";
const COLORS = {
  transparent: "#e8e8ec", blue: "#45a1ff", brown: "#a47c4f", darkgrey: "#737373", green: "#5bd04f", grey: "#c3c3c8",
  lightblue: "#9fd3ff", lightgreen: "#b6e8b0", lightred: "#ffb3b3", magenta: "#ff6bc6", orange: "#ffa436",
  purple: "#b98eff", red: "#ff5c5c", yellow: "#ffe066",
};

function load(file) {
  const bytes = readFileSync(file);
  const root = JSON.parse(bytes[0] === 0x1f ? gunzipSync(bytes) : bytes);
  const origin = root.meta.startTime;
  return [root, ...root.processes.toSorted((a, b) => byName(a.meta.product, b.meta.product))].map((process) => ({
    name: process.meta.product,
    threads: process.threads
      .map((thread) => ({ name: thread.name, bars: intervals(thread, process.meta, process.meta.startTime - origin) }))
      .sort((a, b) => (b.name === MAIN_THREAD) - (a.name === MAIN_THREAD) || byName(a.name, b.name)),
  }));
}

const byName = (a, b) => a.localeCompare(b, "en", { numeric: true });

/** The intervals of a thread, each below the one that it lies in. */
function intervals({ markers, stringTable }, { categories }, offset) {
  const { name, startTime, endTime, category, data } = markers.schema;
  const bars = markers.data
    .filter((row) => row[startTime] !== null && row[endTime] !== null)
    .map((row) => ({
      start: row[startTime] + offset,
      end: row[endTime] + offset,
      text: row[data]?.path?.split("/").at(-1) ?? stringTable[row[name]],
      category: categories[row[category]],
    }))
    .sort((a, b) => a.start - b.start || b.end - a.end);
  const open = [];
  for (const bar of bars) {
    while (open.length > 0 && open.at(-1) <= bar.start) open.pop();
    bar.depth = open.push(bar.end) - 1;
  }
  return bars;
}

const escaped = (text) => text.replace(/[<>&]/g, (c) => ({ "<": "&lt;", ">": "&gt;", "&": "&amp;" })[c]);
const rounded = (number) => Number(number.toFixed(1));

/** A step of 1, 2 or 5 times a power of ten, so that there are about ten of them. */
function stepFor(length) {
  const power = 10 ** Math.floor(Math.log10(length / 10));
  return [1, 2, 5, 10].map((n) => n * power).find((step) => length / step <= 12);
}

function draw(processes) {
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
  return { body: [...grid(from, to, x, y - 40), ...out], height: y };
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
const style = `text{font:11px sans-serif;fill:#333}.process{font-weight:bold;font-size:12px}.in{font-size:8.5px;fill:#000}.tick{fill:#888;font-size:10px}`;
writeFileSync(
  picture,
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}"><style>${style}</style>
<rect width="${WIDTH}" height="${height}" fill="#fff"/>
${body.join("\n")}
</svg>
`,
);
