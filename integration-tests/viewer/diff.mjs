// Checks the flame graph of `profiler diff --html` in a real browser, from a file: boxes and their
// colours, zoom, search, inversion, processes, foreign names, dark and light colours.
//
//   node diff.mjs CHROMIUM PROFILER [DIRECTORY]
//
// PROFILER is the command `profiler`. The profiles are made here. Files are saved in DIRECTORY.
//
// Prints one line per check, `ok ...` or `FAIL ...`. Exit code 0: all passed; 1: a check failed; 2:
// it could not run.

import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { Browser } from "./browser.mjs";

const [chromium, profiler, directory] = process.argv.slice(2);
if (!chromium || !profiler || !existsSync(profiler)) {
  console.log("usage: node diff.mjs CHROMIUM PROFILER [DIRECTORY]");
  process.exit(2);
}

let failed = 0;
function check(passed, what) {
  if (!passed) failed += 1;
  console.log(`${passed ? "ok" : "FAIL"} ${what}`);
}

/** A name that would run code in a page that does not treat it as text. */
const EVIL = `</script><script>window.broken = 1</script><img src=x onerror="window.broken = 2">`;
const NAMES = ["main", "parse", "sort", "render", EVIL, "idle"];
/** Stacks of the processes, the innermost last, with their samples before and after. */
const PROCESSES = {
  "web server": [
    [["main", "parse"], 400, 400],
    [["main", "sort"], 100, 700],
    [["main", "render", EVIL], 400, 100],
    [["main", "render", "sort"], 100, 100],
  ],
  worker: [[["main", "idle"], 500, 500]],
};

/** A profile in the viewer's format, with samples of 1 ms. */
function profile(side) {
  const [frame, prefix, threads] = [[], [], []];
  for (const [processName, stacks] of Object.entries(PROCESSES)) {
    const rows = [];
    for (const [names, ...counts] of stacks) {
      names.forEach((name, depth) => {
        prefix.push(depth > 0 ? frame.length - 1 : null);
        frame.push(NAMES.indexOf(name));
      });
      rows.push(...new Array(counts[side]).fill(frame.length - 1));
    }
    // Every stack occurs during the whole run.
    const stack = rows.map((_, row) => rows[(row * 7919) % rows.length]);
    threads.push({
      name: "t", processName, pid: String(threads.length + 1), tid: 1,
      samples: { length: stack.length, stack, timeDeltas: stack.map(() => 1), threadCPUDelta: stack.map(() => 1e6) },
    });
  }
  const rows = NAMES.map((_, place) => place);
  return {
    meta: { preprocessedProfileVersion: 66, interval: 1, profilingStartTime: 0, profilingEndTime: 1300, sampleUnits: { threadCPUDelta: "ns" } },
    threads,
    shared: {
      stackTable: { length: frame.length, frame, prefix }, frameTable: { length: rows.length, func: rows },
      funcTable: { length: rows.length, name: rows }, stringArray: NAMES,
    },
  };
}

/** The boxes that are drawn: their name, place and colour. */
const BOXES = `document.querySelector("#graph").flameGraph.boxes.map(({ frame, x, y, w }) => ({ name: tree.texts[frame], x, y, w, color: colorOf(change(frame)), change: change(frame), mark: isMarked(frame) }))`;
const boxes = (browser) => browser.evaluate(BOXES);
const find = (all, name) => all.filter((box) => box.name === name);
const text = (id) => `document.querySelector("#${id}").textContent`;

async function choose(browser, id, value) {
  await browser.evaluate(`(() => {
    const control = document.querySelector("#${id}");
    if (control.type === "checkbox") control.checked = ${JSON.stringify(value)}; else control.value = ${JSON.stringify(value)};
    control.dispatchEvent(new Event(control.type === "search" ? "input" : "change"));
  })()`);
  await settled(browser);
}

/** Waits until the graph is drawn. */
const settled = (browser) => browser.evaluate(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`);

async function mouse(browser, box, type) {
  const place = await browser.evaluate(`(() => { const { x, y } = document.querySelector("#graph").getBoundingClientRect(); return { x, y }; })()`);
  const at = { x: place.x + box.x + box.w / 2, y: place.y + box.y + 8 };
  if (type === "move") await browser.send("Input.dispatchMouseEvent", { type: "mouseMoved", ...at });
  else for (const type of ["mousePressed", "mouseReleased"]) await browser.send("Input.dispatchMouseEvent", { type, ...at, button: "left", clickCount: 1 });
  await settled(browser);
}

async function draws(browser) {
  const all = await boxes(browser);
  const width = await browser.evaluate(`document.querySelector("#scroll").clientWidth`);
  check(find(all, "all processes")[0]?.w === width, "the root has the whole width");
  const server = find(all, "web server")[0];
  // 1000 of 1500 samples before, 1300 of 1800 after.
  check(Math.abs(server.w / width - (1000 / 1500 + 1300 / 1800) / 2) < 0.001, "a width is the mean of both shares");
  const totals = await browser.evaluate(`${text("total-before")} + ", " + ${text("total-after")} + ", " + ${text("total-change")}`);
  check(totals === "1500.0 ms, 1800.0 ms, time, running or waiting per run (+20.0 %)", `the times of both sides: ${totals}`);
  await choose(browser, "process", "0");
  const one = await boxes(browser);
  const [sort] = find(one, "sort").sort((a, b) => b.w - a.w);
  const [render] = find(one, "render");
  check(Math.abs(sort.change - (700 / 1300 - 100 / 1000) * 100) < 0.2, `the change of a share: ${sort.change.toFixed(1)} points`);
  const [red, , blue] = sort.color;
  check(red > blue && render.color[2] > render.color[0], `what grew is red, what shrank is blue: ${sort.color}; ${render.color}`);
  check(sort.mark && render.mark && !find(one, "main")[0].mark, "changes that are more than noise are marked");
  const pixels = await browser.evaluate(`(() => {
    const canvas = document.querySelector("#graph");
    return [...canvas.getContext("2d").getImageData(${Math.round(sort.x + sort.w - 6)}, ${Math.round(sort.y + 3)}, 1, 1).data];
  })()`);
  check(sort.color.every((one, place) => Math.abs(one - pixels[place]) <= 1), `the canvas has this colour: ${pixels}`);
}

async function zooms(browser) {
  const width = await browser.evaluate(`document.querySelector("#scroll").clientWidth`);
  const before = await boxes(browser);
  await mouse(browser, find(before, "render")[0], "click");
  const zoomed = await boxes(browser);
  check(find(zoomed, "render")[0].w === width && find(zoomed, "parse").length === 0, "a click gives a frame the whole width");
  check(find(zoomed, "main")[0].w === width, "its callers stay");
  await browser.evaluate(`document.querySelector("#graph").focus()`);
  await browser.key("Escape", 27);
  await settled(browser);
  check((await boxes(browser)).length === before.length, "Escape shows all");
  for (const key of ["ArrowDown", "ArrowDown", "ArrowRight", "Enter"]) await browser.key(key, { ArrowDown: 40, ArrowRight: 39, Enter: 13 }[key]);
  await settled(browser);
  const chosen = await browser.evaluate(text("frame-name"));
  check((await boxes(browser)).some((box) => box.name === chosen && box.w === width), `the keyboard zooms, too: ${chosen}`);
  await browser.press("#reset");
  await settled(browser);
  await mouse(browser, find(before, "parse")[0], "move");
  check((await browser.evaluate(text("frame-numbers"))).includes("total 40.00 % → 30.77 %"), `the numbers of the frame under the pointer: ${await browser.evaluate(text("frame-numbers"))}`);
}

async function searches(browser) {
  await choose(browser, "search", "SORT");
  const found = await browser.evaluate(text("found"));
  check(found.includes("2 frames: 20.0 % → 61.5 %"), `the search adds up all frames: ${found}`);
  await browser.evaluate(`[...document.querySelectorAll("#changes button")].find((button) => button.textContent === "parse").click()`);
  check((await browser.evaluate(text("found"))).startsWith("1 frame: 40.0 %"), "a function of the table is found in the graph");
  await browser.press("#reset");
  check((await browser.evaluate(text("found"))) === "", "Reset ends the search");
}

async function inverts(browser) {
  await choose(browser, "invert", true);
  const all = await boxes(browser);
  const sorts = find(all, "sort");
  const width = await browser.evaluate(`document.querySelector("#scroll").clientWidth`);
  check(sorts.length === 1 && Math.abs(sorts[0].w / width - (200 / 1000 + 800 / 1300) / 2) < 0.002, "inverted, a function is one frame with its callers below");
  check(find(all, "main").length >= 3, "each with its own callers");
  await choose(browser, "invert", false);
  await choose(browser, "width", "after");
  const after = find(await boxes(browser), "parse")[0];
  check(Math.abs(after.w / width - 400 / 1300) < 0.002, "widths of one side");
  await choose(browser, "width", "both");
  await choose(browser, "time", "cpu");
  check((await browser.evaluate(text("total-change"))).startsWith("processor time"), "processor time");
  await choose(browser, "time", "wall");
  await choose(browser, "change", "own");
  const render = find(await boxes(browser), "render")[0];
  check(render.change === 0, "colours of the change of self");
  await choose(browser, "change", "total");
}

async function isSafe(browser) {
  check((await browser.evaluate("window.broken ?? 0")) === 0 && (await browser.evaluate("document.images.length")) === 0, "a foreign name runs nothing");
  const shown = await browser.evaluate(`[...document.querySelectorAll("#changes button")].map((button) => button.textContent)`);
  check(shown.includes(EVIL), "and is shown as it is");
}

/** The contrast of the text and the background of each box, as WCAG defines it. */
const CONTRAST = `(() => {
  const contrast = (one, other) => { const [a, b] = [FlameGraph.luminance(one), FlameGraph.luminance(other)].sort((x, y) => y - x); return (a + 0.05) / (b + 0.05); };
  const rgb = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const page = rgb(getComputedStyle(document.body).backgroundColor);
  const of = (selector) => contrast(rgb(getComputedStyle(document.querySelector(selector)).color), page);
  const fills = Array.from({ length: 41 }, (_, step) => colorOf(((step - 20) / 20) * strongest));
  const boxes = fills.map((fill) => contrast(fill, FlameGraph.luminance(fill) > 0.179 ? [0, 0, 0] : [255, 255, 255]));
  return { page, least: Math.min(of("body"), of(".note"), of("label"), ...boxes), ends: contrast(fills[0], fills[20]) };
})()`;

async function looks(browser) {
  const found = {};
  for (const scheme of ["light", "dark"]) {
    await browser.screen(1180, 900, scheme);
    await browser.evaluate("window.scrollTo(0, 0)");
    await browser.until(`matchMedia("(prefers-color-scheme: ${scheme})").matches && innerWidth === 1180`);
    await settled(browser);
    found[scheme] = await browser.evaluate(CONTRAST);
    if (directory) writeFileSync(join(directory, `diff-${scheme}.png`), await browser.picture());
    check(found[scheme].least >= 4.5, `${scheme} can be read: contrast ${found[scheme].least.toFixed(1)}`);
  }
  check(String(found.light.page) !== String(found.dark.page), "dark is not light");
  for (const width of [1180, 700, 380]) {
    await browser.screen(width, 800, "light");
    await browser.until(`innerWidth === ${width}`);
    await settled(browser);
    const wide = await browser.evaluate(`document.documentElement.scrollWidth`);
    check(wide <= width, `nothing is wider than a window of ${width}: ${wide}`);
  }
}

const temporary = mkdtempSync("/tmp/diff-page-");
let browser;
try {
  const paths = ["before.json", "after.json"].map((name, side) => {
    const path = join(temporary, name);
    writeFileSync(path, JSON.stringify(profile(side)));
    return path;
  });
  const page = join(directory ?? temporary, "diff.html");
  const made = spawnSync(profiler, ["diff", ...paths, "--by", "wall", "--html", page], { encoding: "utf8" });
  check(made.status === 0, `profiler diff --html: ${made.stderr}`);
  browser = await Browser.start(chromium);
  await browser.screen(1180, 900, "light");
  const url = pathToFileURL(page).href;
  await browser.send("Page.navigate", { url });
  await browser.until(`document.readyState === "complete" && location.href === ${JSON.stringify(url)} && document.querySelector("#graph")?.flameGraph?.boxes.length > 0`);
  await draws(browser);
  await zooms(browser);
  await searches(browser);
  await inverts(browser);
  await isSafe(browser);
  await looks(browser);
  check(browser.complaints.length === 0, `the browser complains of nothing ${browser.complaints.slice(0, 3).join("; ")}`);
} catch (error) {
  check(false, error.message);
} finally {
  await browser?.close();
  rmSync(temporary, { recursive: true, force: true });
}
process.exitCode = failed > 0 ? 1 : 0;
