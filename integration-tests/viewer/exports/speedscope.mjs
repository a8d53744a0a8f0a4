// X1, X10: opens speedscope's own JSON with all threads, and one `.cpuprofile`, in speedscope in a
// headless Chromium.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import puppeteer from "puppeteer-core";

import { busiest, near, selfTimes } from "./reference.mjs";

const BROWSERS = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const PATIENCE_MS = 180_000;
const SHOWN_MS = 60_000;
const UNITS = { ns: 1e-3, "µs": 1, ms: 1e3, s: 1e6, min: 6e7 };

/** Returns the path of a browser, if one is installed. */
export const browser = () => BROWSERS.find((path) => existsSync(path));

/**
 * Converts a time such as "1.50ms" to microseconds. Times of a minute and more have the form
 * "1:05".
 */
function microseconds(text) {
  const clock = text.match(/^(\d+):([\d.]+)/);
  if (clock !== null) return (Number(clock[1]) * 60 + Number(clock[2])) * 1e6;
  const [, number, unit] = text.match(/^([\d.,]+)\s*(ns|µs|ms|s|min)/) ?? [];
  return unit === undefined ? NaN : Number(number.replaceAll(",", "")) * UNITS[unit];
}

/** Opens a file and returns the page. */
async function open(chromium, viewer, work, file) {
  const page = await chromium.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  await page.setViewport({ width: 1000, height: 700 });
  const script = join(work, `${basename(file)}.js`);
  const bytes = readFileSync(file).toString("base64");
  writeFileSync(script, `speedscope.loadFileFromBase64(${JSON.stringify(basename(file))}, "${bytes}")`);
  const site = join(viewer, "node_modules/speedscope/dist/release/index.html");
  await page.goto(`file://${site}#view=sandwich&localProfilePath=${script}`);
  await page.waitForFunction(() => document.body.innerText.includes("Symbol Name"));
  return page;
}

/** Returns the rows of the table: self times in microseconds, by name. */
async function rows(page) {
  const cells = await page.evaluate(() =>
    [...document.querySelectorAll("table")].filter((table) => table.querySelector("thead") === null)
      .flatMap((table) => [...table.querySelectorAll("tr")].map((row) => [...row.querySelectorAll("td")].map((cell) => cell.innerText.trim()))));
  const self = new Map();
  for (const [, own, name] of cells.filter((row) => row.length === 3)) {
    self.set(name, (self.get(name) ?? 0) + microseconds(own));
  }
  return self;
}

/**
 * Shows the profile with this number: presses the key for the next or the previous profile until it
 * is shown. Returns whether it has this name.
 */
async function show(page, number, name) {
  const is = (text) => page.waitForFunction((text) => document.body.innerText.includes(text), { timeout: SHOWN_MS }, text);
  const place = async () => Number((await page.evaluate(() => document.body.innerText)).match(/\((\d+)\/\d+\)/)?.[1] ?? NaN);
  try {
    for (let at = await place(); at !== number; at += at < number ? 1 : -1) {
      await page.keyboard.press(at < number ? "n" : "p");
      await is(`(${at < number ? at + 1 : at - 1}/`);
    }
    await is(`${name} (${number}/`);
    return true;
  } catch {
    return false;
  }
}

function compare(shown, thread, where, part, say) {
  for (const [name, us] of busiest(thread, 0.05)) {
    say(near(shown.get(name), us, thread.total, part), `${where}: ${name} has ${us} µs (${shown.get(name)})`);
  }
}

export async function check({ viewer, work, directory, reference }, say) {
  const profile = join(work, "chromium");
  mkdirSync(profile, { recursive: true });
  const args = ["--no-sandbox", "--disable-gpu", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"];
  const options = { headless: true, timeout: PATIENCE_MS, userDataDir: profile, args };
  const chromium = await puppeteer.launch({ executablePath: browser(), ...options });
  try {
    const page = await open(chromium, viewer, work, join(directory, "profile.speedscope.json"));
    const names = await page.evaluate(() => [...document.querySelectorAll("tr[title]")].map((row) => row.title));
    const expected = reference.map((thread) => thread.name);
    say(JSON.stringify([...names].sort()) === JSON.stringify([...expected].sort()), `X10 speedscope: a profile per thread, "process / thread" (${names.join(", ")})`);
    const busy = reference.filter((thread) => thread.samples > 100 && busiest(thread, 0.05).length > 0);
    for (const thread of busy.slice(0, 2)) {
      const place = names.indexOf(thread.name) + 1;
      const found = place > 0 && await show(page, place, thread.name);
      say(found, `X10 speedscope: "${thread.name}" can be shown`);
      if (found) compare(await rows(page), thread, `X10 speedscope: "${thread.name}"`, 0.01, say);
    }
    await page.close();
    for (const thread of busy.slice(0, 1)) {
      const alone = await open(chromium, viewer, work, join(directory, "cpuprofile", thread.file));
      // speedscope ignores the last sample.
      const { profile } = thread;
      const endTime = profile.timeDeltas.reduce((sum, us) => sum + us, profile.startTime);
      const others = { ...thread, ...selfTimes({ ...profile, endTime }) };
      compare(await rows(alone), others, `X1 speedscope: ${thread.file}`, 0.01, say);
      await alone.close();
    }
  } finally {
    await chromium.close();
  }
}
