// Checks the live page in a real browser: rows, sorting by mouse and keyboard, rows that keep their
// places, evidence, the flame graph, dark and light colours, narrow windows.
//
//   node live.mjs CHROMIUM SCENE [DIRECTORY]
//
// SCENE is the program `live_scene`. Pictures are saved in DIRECTORY.
//
// Prints one line per check, `ok ...` or `FAIL ...`. Exit code 0: all passed; 1: a check failed; 2:
// it could not run.

import { spawn } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Browser } from "./browser.mjs";

const [chromium, scene, directory] = process.argv.slice(2);
if (!chromium || !scene || !existsSync(scene)) {
  console.log("usage: node live.mjs CHROMIUM SCENE [DIRECTORY]");
  process.exit(2);
}

let failed = 0;
function check(passed, what) {
  if (!passed) failed += 1;
  console.log(`${passed ? "ok" : "FAIL"} ${what}`);
}

const GROUPS = ["spell-checker", "image-decoder", "acme", "globex", "GET-/search", "index", "hare", "tortoise", "frozen"];
const PROCESSES = ["application", "plugin host 1", "plugin host 2", "plugin host 3"];

/** The first cells of a table's rows, without rows of members. */
const names = (table) => `[...document.querySelectorAll("#${table} tbody tr:not(.member)")].map((row) => row.cells[0].textContent)`;
const cell = (name, column) => `[...document.querySelectorAll("#groups tbody tr")].find((row) => row.cells[0].textContent === ${JSON.stringify(name)})?.cells[${column}].textContent`;
const has = (table, wanted) => `${JSON.stringify(wanted)}.every((name) => ${names(table)}.includes(name))`;
const isSorted = (sign) => `${names("groups")}.every((name, place, all) => place === 0 || ${sign} * (all[place - 1].toLowerCase() < name.toLowerCase() ? 1 : -1) > 0)`;

async function rows(browser) {
  await browser.until(has("groups", GROUPS));
  check(true, `a row for each of ${GROUPS.length} groups`);
  await browser.until(has("processes", PROCESSES));
  check(true, `a row for each of ${PROCESSES.length} processes`);
  await browser.until(`document.querySelector("#processes").textContent.includes("frozen")`);
  check(true, "who stands still is named");
  await browser.until(`document.querySelectorAll("#counters .card").length >= 5`);
  await browser.until(`document.querySelector("#counters").textContent.includes("queued requests")`);
  check(true, "the program's own counter is drawn");
}

async function sorting(browser) {
  await browser.press('[data-sort="name"]');
  await browser.until(`document.querySelector("#groups th").getAttribute("aria-sort") === "ascending"`);
  check(await browser.evaluate(isSorted(1)), "sorted by name with the mouse");
  await browser.evaluate(`document.querySelector('[data-sort="name"]').focus()`);
  await browser.key("Enter", 13, "\r");
  await browser.until(`document.querySelector("#groups th").getAttribute("aria-sort") === "descending"`);
  check(await browser.evaluate(isSorted(-1)), "and the other way with the keyboard");
  const ring = await browser.evaluate(`getComputedStyle(document.querySelector('[data-sort="name"]')).outlineStyle`);
  check(ring === "solid", "what has the focus can be seen");
}

async function staying(browser, tell) {
  await browser.press('[data-sort="ticks"]');
  await browser.evaluate(`document.activeElement.blur()`);
  await browser.until(`${names("groups")}.indexOf("hare") < ${names("groups")}.indexOf("tortoise")`);
  const isOver = `document.querySelector("#groups tbody").matches(":hover")`;
  // The table may move just before the pointer reaches it.
  for (let tries = 0; tries < 100 && !(await browser.evaluate(isOver)); tries += 1) {
    await browser.point("#groups tbody tr:nth-child(3) td:nth-child(4)");
  }
  tell("overtake");
  await browser.until(`Number(${cell("tortoise", 6)}?.replaceAll(/\\D/g, "")) > 5000`);
  const stays = `${names("groups")}.indexOf("hare") < ${names("groups")}.indexOf("tortoise")`;
  check(await browser.evaluate(`${isOver} && ${stays}`), "rows stay put under the pointer");
  // The graph is above the table. The innermost function has no rows below it, so a zoom to it
  // makes the graph lower, whatever was sampled. The keys are dispatched to the canvas without
  // focus, because a focus would scroll the page.
  const top = `document.querySelector("#groups tbody").getBoundingClientRect().top`;
  const high = `${flame("canvas")}.clientHeight`;
  const keys = (...names) => browser.evaluate(`for (const key of ${JSON.stringify(names)}) ${flame("canvas")}.dispatchEvent(new KeyboardEvent("keydown", { key }))`);
  await browser.until(`${high} > 18 * 8`);
  const before = await browser.evaluate(`[${top}, ${high}]`);
  await keys(...Array(200).fill("ArrowDown"), "Enter");
  await browser.until(`${high} < ${before[1]}`);
  check(Math.abs((await browser.evaluate(top)) - before[0]) < 2, "and so does their table in the window");
  const low = await browser.evaluate(high);
  await keys("Escape");
  await browser.until(`${high} > ${low}`);
  check(Math.abs((await browser.evaluate(top)) - before[0]) < 2, "also when the graph grows");
  await browser.point(null);
  await browser.until(`${names("groups")}.indexOf("tortoise") < ${names("groups")}.indexOf("hare")`);
  check(true, "and move when it has gone");
}

async function opening(browser) {
  await browser.press('[data-sort="wall"]');
  await browser.until(`${names("groups")}.length > 0 && document.querySelector('[data-sort="wall"]').closest("th").hasAttribute("aria-sort")`);
  const acme = `[...document.querySelectorAll("#groups tbody tr")].find((row) => row.cells[0].textContent === "acme")`;
  await browser.evaluate(`${acme}.querySelector("button").click()`);
  await browser.until(`document.querySelectorAll("#groups tr.member").length === 2`);
  check(await browser.evaluate(`${acme}.querySelector("button").getAttribute("aria-expanded") === "true"`), "a group opens into its processes");
  await browser.press('[data-window="10s"]');
  await browser.until(`document.querySelector("#groups-note").textContent.includes("What was done in the last")`);
  check(await browser.evaluate(has("groups", GROUPS)), "what was done lately");
  await browser.press('[data-window="start"]');
}

async function evidence(browser) {
  // On a loaded machine, other groups also have alerts.
  await browser.until(`document.querySelector("#alerts-list").textContent.includes("image-decoder")`);
  check(true, "an alert names who was slow");
  await browser.press("#alerts-list li:last-child button");
  await browser.until(`document.querySelector("#profiles-list a[download]")`);
  const viewer = await browser.evaluate(`document.querySelector("#profiles-list a[target]").href`);
  const token = new URL(await browser.evaluate("location.href")).pathname.split("/")[1];
  check(token && viewer.includes("/from-url/") && !viewer.includes(token), "the viewer's address does not have the token in it");
  const link = await browser.evaluate(`document.querySelector("#profiles-list a[download]").href`);
  const file = Buffer.from(await (await fetch(link)).arrayBuffer());
  check(file.length > 500 && file[0] === 0x1f && file[1] === 0x8b, `its evidence can be saved: ${file.length} bytes`);
  check(await browser.evaluate(`document.querySelector("#profiles-list").textContent.includes("profiler view /")`), "and opened");
}

const flame = (name) => `document.querySelector("#flame-${name}")`;
const aria = (selector) => `document.querySelector(${JSON.stringify(selector)}).getAttribute("aria-pressed") === "true"`;

/** Waits for an answer that was made after the last change. */
async function nextFlames(browser, condition) {
  const pass = await browser.evaluate(`${flame("canvas")}.dataset.passes`);
  await browser.until(`Number(${flame("canvas")}.dataset.passes) > ${pass ?? 0} && (${condition})`);
}

/** Records in `window.spoken` what a screen reader is told from now on. */
const LISTEN = `(() => {
  window.spoken = [];
  const watch = new MutationObserver((changes) => changes.forEach(({ target }) => window.spoken.push(target.textContent)));
  for (const one of document.querySelectorAll('[role="status"]')) watch.observe(one, { childList: true, characterData: true, subtree: true });
})()`;

/** Whether something is drawn on the canvas: pixels of more than three colours. */
const COLOURS = `(() => {
  const canvas = document.querySelector("#flame-canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const colours = new Set();
  for (let at = 0; at < data.length; at += 4) if (data[at + 3] > 0) colours.add((data[at] << 16) | (data[at + 1] << 8) | data[at + 2]);
  return colours.size;
})()`;

async function flames(browser) {
  const search = (text) => browser.evaluate(`(() => { const find = ${flame("find")}; find.value = ${JSON.stringify(text)}; find.dispatchEvent(new Event("input")); })()`);
  await browser.until(`Number(${flame("canvas")}.dataset.boxes) > 8`);
  await browser.evaluate(`${flame("functions")}.open = true`);
  const functions = `[...document.querySelectorAll("#flame-table tbody tr")].map((row) => row.cells[0].textContent)`;
  // The table shows the functions with the most time, so which ones depends on the machine.
  await search("find_matches");
  await browser.until(`${functions}.some((name) => name.includes("find_matches"))`);
  check(true, "the flame graph shows functions by their names");
  await search("");
  check((await browser.evaluate(COLOURS)) > 3, "boxes are drawn");
  const before = await browser.evaluate(`${flame("canvas")}.dataset.passes`);
  await browser.until(`Number(${flame("canvas")}.dataset.passes) >= ${before} + 2`);
  check(true, "it is refreshed");

  // The first function below the first row, where the pointer is.
  await browser.evaluate(`${flame("canvas")}.scrollIntoView({ block: "start" })`);
  const { x, y, width } = await browser.evaluate(`(() => { const { x, y, width } = ${flame("canvas")}.getBoundingClientRect(); return { x, y, width }; })()`);
  const at = { x: x + width / 4, y: y + 18 * 2.5, button: "left", clickCount: 1 };
  await browser.send("Input.dispatchMouseEvent", { type: "mouseMoved", x: at.x, y: at.y });
  await browser.until(`/: .*self/.test(${flame("about")}.textContent)`);
  check(true, `the pointed function is described: ${await browser.evaluate(`${flame("about")}.textContent`)}`);
  const described = await browser.evaluate(`${flame("canvas")}.dataset.passes`);
  await browser.evaluate(LISTEN);
  await browser.until(`Number(${flame("canvas")}.dataset.passes) >= ${described} + 3`);
  const spoken = await browser.evaluate("window.spoken");
  check(spoken.length === 0, `a screen reader is not told of each refresh ${spoken.slice(0, 3).join("; ")}`);
  for (const type of ["mousePressed", "mouseReleased"]) await browser.send("Input.dispatchMouseEvent", { type, ...at });
  await browser.until(`!${flame("path")}.hidden`);
  check(await browser.evaluate(`${flame("path")}.querySelectorAll("button").length >= 1`), "a click zooms, and shows the way back");
  await browser.evaluate(`${flame("canvas")}.focus()`);
  await browser.key("ArrowDown", 40);
  await browser.until(`window.spoken.some((text) => /: .*self/.test(text))`);
  check(true, "a screen reader is told of the function that a key chooses");
  await browser.key("Escape", 27);
  await browser.until(`${flame("path")}.hidden`);
  check(true, "the Escape key zooms out");
  await browser.evaluate(`document.activeElement.blur()`);
  await browser.point(null);

  await search("compress");
  await browser.until(`/Found: [1-9]/.test(${flame("note")}.textContent)`);
  await browser.until(`${functions}.length > 0 && ${functions}.every((name) => name.includes("compress"))`);
  check(true, "a search marks functions and says their share");
  await search("");

  await browser.press("#flame-invert");
  await nextFlames(browser, aria("#flame-invert"));
  check((await browser.evaluate(COLOURS)) > 3, "it can be inverted");
  await browser.press("#flame-invert");
  for (const window of ["60s", "start", "10s"]) {
    await browser.press(`[data-fwindow="${window}"]`);
    await nextFlames(browser, `${aria(`[data-fwindow="${window}"]`)} && Number(${flame("canvas")}.dataset.boxes) > 8`);
  }
  check(true, "the windows 60 s, since start and 10 s are shown");
  await browser.press('[data-ftime="off-cpu"]');
  // The table shows the functions with the most time: without the search, most are outer ones.
  await search("wait_for_request");
  await browser.until(`${functions}.some((name) => /wait_for_request/.test(name))`);
  check(true, "waits are shown off CPU");
  await search("");
  await browser.press('[data-ftime="on-cpu"]');
  await browser.press("#flame-compare");
  await browser.until(`${flame("legend")}.textContent.includes("more")`);
  check(true, "colours show the difference to the window before");
  await browser.press("#flame-compare");
  await browser.press('[data-fcolour="process"]');
  await browser.until(`${flame("legend")}.textContent.includes("plugin host 1")`);
  check(true, "colours show the processes");
  await browser.press('[data-fcolour="function"]');
  await browser.evaluate(`[...document.querySelectorAll("#processes tbody tr")].find((row) => row.cells[0].textContent === "plugin host 2").querySelector("button").click()`);
  await browser.until(`${flame("process")}.selectedOptions[0].textContent.startsWith("plugin host 2") && !${flame("thread")}.disabled`);
  check(true, "one process is chosen in its row");
  await browser.evaluate(`(() => { const list = ${flame("process")}; list.value = ""; list.dispatchEvent(new Event("change")); })()`);
  await browser.until(`${flame("thread")}.disabled`);
}

async function markers(browser) {
  await browser.press("#markers summary");
  await browser.until(`[...document.querySelectorAll("#marker-table tbody tr")].some((row) => row.cells[1].textContent === "round")`);
  check(await browser.evaluate(`document.querySelectorAll("#marker-table tbody tr").length <= 300`), "markers stream, not without end");
  await browser.press("#markers summary");
}

async function pausing(browser) {
  await browser.press("#pause");
  // A late answer may still arrive. A page that is not paused shows another table and another
  // flame graph each second.
  const shown = () => browser.evaluate(`document.querySelector("#groups").textContent + ${flame("canvas")}.dataset.passes`);
  let stays = false;
  for (let looks = 0; looks < 20 && !stays; looks += 1) {
    const before = await shown();
    await new Promise((resolve) => setTimeout(resolve, 2500));
    stays = before === (await shown());
  }
  check(stays, "nothing moves while it pauses");
  await browser.press("#pause");
}

/** The contrast of text and background, as WCAG defines it. */
const CONTRAST = `(() => {
  const light = (color) => {
    const [r, g, b] = color.match(/[\\d.]+/g).map((one) => Number(one) / 255).map((one) => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (front, back) => { const [a, b] = [light(front), light(back)].sort((x, y) => y - x); return (a + 0.05) / (b + 0.05); };
  const of = (selector, property) => getComputedStyle(document.querySelector(selector))[property];
  const panel = getComputedStyle(document.querySelector("#groups").closest("section")).backgroundColor;
  return {
    page: of("body", "backgroundColor"),
    text: contrast(of("#groups td", "color"), panel),
    soft: contrast(of("#groups-count", "color"), panel),
    main: contrast(of("#capture", "color"), of("#capture", "backgroundColor")),
  };
})()`;

async function looks(browser) {
  const found = {};
  await browser.evaluate(`${flame("functions")}.open = false`);
  for (const scheme of ["light", "dark"]) {
    await browser.screen(1180, 900, scheme);
    await browser.evaluate(`document.querySelector("#groups").closest(".scroll").scrollLeft = 0; window.scrollTo(0, 0)`);
    await browser.until(`matchMedia("(prefers-color-scheme: ${scheme})").matches && innerWidth === 1180`);
    // Rows change their colours in a transition.
    await browser.until(`document.getAnimations().every((animation) => animation.playState !== "running")`);
    found[scheme] = await browser.evaluate(CONTRAST);
    if (directory) writeFileSync(join(directory, `live-${scheme}.png`), await browser.picture());
    const { text, soft, main } = found[scheme];
    check(Math.min(text, soft, main) >= 4.5, `${scheme} can be read: contrast ${[text, soft, main].map((one) => one.toFixed(1))}`);
  }
  check(found.light.page !== found.dark.page, `dark is not light: ${found.light.page}, ${found.dark.page}`);
  for (const width of [1180, 700, 380]) {
    await browser.screen(width, 800, "light");
    await browser.until(`innerWidth === ${width}`);
    const wide = await browser.evaluate(`document.documentElement.scrollWidth`);
    check(wide <= width, `nothing is wider than a window of ${width}: ${wide}`);
    if (directory && width === 380) writeFileSync(join(directory, "live-narrow.png"), await browser.picture());
  }
}

const parent = spawn(scene, [], { stdio: ["pipe", "pipe", "inherit"] });
const ended = new Promise((resolve) => parent.on("exit", (code, signal) => resolve(signal ?? code)).on("error", resolve));
let browser;
try {
  const printed = new Promise((resolve) => createInterface(parent.stdout).once("line", resolve));
  const url = await Promise.race([printed, ended]);
  browser = await Browser.start(chromium);
  await browser.screen(1180, 900, "light");
  await browser.send("Page.navigate", { url: String(url) });
  await browser.until(`document.readyState === "complete" && location.href === ${JSON.stringify(url)}`);
  await rows(browser);
  await sorting(browser);
  await staying(browser, (line) => parent.stdin.write(`${line}\n`));
  await opening(browser);
  await evidence(browser);
  await flames(browser);
  await markers(browser);
  await pausing(browser);
  await looks(browser);
  check(browser.complaints.length === 0, `the browser complains of nothing ${browser.complaints.slice(0, 3).join("; ")}`);
  parent.stdin.end();
  check((await ended) === 0, "the session ends in order");
  await browser.until(`!document.querySelector("#trouble").hidden`);
  check(true, "and the page says so");
} catch (error) {
  check(false, error.message);
} finally {
  // The scene continues its stopped host before it ends.
  parent.stdin.end();
  await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, 10000).unref())]);
  parent.kill("SIGTERM");
  await browser?.close();
}
process.exitCode = failed > 0 ? 1 : 0;
