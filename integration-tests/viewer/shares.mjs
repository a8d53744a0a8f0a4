// Checks that the real viewer's loader finds the functions, files, lines and shares of time of a
// program with known behaviour (`known_shares`).
//
//   node shares.mjs PROFILE EXPECT.json [PROFILER]
//
// With PROFILER, the `profiler` command, the names come from the symbol server of `profiler view
// PROFILE`, as for any file in the Gecko format, and the checks include what the viewer shows on a
// double-click: the text of the lines and the assembly code. Prints one line per check, `ok ...` or
// `FAIL ...`. The exit codes are those of check.mjs.

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { CannotRun, Refused, Viewer, needNode } from "./check.mjs";
import { tolerance } from "./exports/shares.mjs";

// The share of the samples that a line may have by chance: set-up code, or an instruction at a
// function's edge.
const FEW = 0.005;

let failures = 0;
let passes = 0;

function say(good, what, saw) {
  if (good) passes += 1;
  else failures += 1;
  console.log(good ? `ok   ${what}` : `FAIL ${what}: ${saw}`);
}

/** A line of the standard library in `makeToolchain`. */
function standardLine(number) {
  return `// line ${number}`;
}

/** Makes a directory of rustup in which the compiler that runs here has the sources of one file. */
function makeToolchain(rustup) {
  const said = execFileSync("rustc", ["-vV"], { encoding: "utf8" });
  const [, version] = said.match(/^rustc (.+)$/m);
  const rustlib = join(rustup, "toolchains/here/lib/rustlib");
  const sources = join(rustlib, "src/rust/library/std/src");
  mkdirSync(sources, { recursive: true });
  writeFileSync(join(rustlib, "multirust-channel-manifest.toml"), `[pkg.rustc]\nversion = "${version}"\n`);
  writeFileSync(join(sources, "rt.rs"), Array.from({ length: 999 }, (_, at) => standardLine(at + 1)).join("\n"));
}

/** Starts the symbol server of `profiler view`. Returns its address and a function that ends it. */
async function symbolServer(profiler, profile) {
  const rustup = mkdtempSync(join(tmpdir(), "rustup-"));
  makeToolchain(rustup);
  const env = { ...process.env, RUSTUP_HOME: rustup };
  const child = spawn(profiler, ["view", "--no-open", profile], { env, stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  for await (const piece of child.stdout) {
    text += piece;
    if (text.includes("\n")) break;
  }
  const link = text.match(/[?&]symbolServer=([^&\s]+)/);
  if (link === null) throw new CannotRun(`no link from ${profiler} view: ${text}`);
  const end = async () => {
    child.kill("SIGINT");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
    rmSync(rustup, { recursive: true, force: true });
  };
  return { url: decodeURIComponent(link[1]), end };
}

function near(percentage, share, samples) {
  return percentage !== undefined && Math.abs(percentage - share) <= tolerance(share, samples);
}

/**
 * Returns the lines of the function's file that have time of their own, by the viewer's count, without
 * lines with a small part of the file's time. The viewer's `selfSamples` are sums of weights.
 */
async function linesOf(viewer, handle) {
  const { srcAnnotation } = await annotate(viewer, handle, "src");
  const all = srcAnnotation?.lines ?? [];
  const few = FEW * all.reduce((sum, line) => sum + line.selfSamples, 0);
  return { file: srcAnnotation?.filename, lines: all.filter((line) => line.selfSamples > few) };
}

/** Asks for what the viewer shows on a double-click on a function. */
function annotate(viewer, handle, mode) {
  const server = viewer.symbolServer === undefined ? [] : ["--symbol-server", viewer.symbolServer];
  return viewer.ask("function", "annotate", handle, "--mode", mode, "--context", "0", ...server);
}

/** Checks that the viewer shows the text of the lines, and the assembly code with its samples. */
async function checkCode(viewer, handle, { file, lines }, what) {
  const text = existsSync(file) ? readFileSync(file, "utf8").split("\n") : [];
  const wrong = lines.filter((line) => line.sourceText !== text[line.lineNumber - 1]);
  say(lines.length > 0 && wrong.length === 0, `${what}: the source is shown`, JSON.stringify(wrong[0] ?? file));
  const { asmAnnotations, warnings } = await annotate(viewer, handle, "asm");
  const [code] = asmAnnotations.sort((a, b) => b.instructions.length - a.instructions.length);
  const instructions = code?.instructions ?? [];
  const hit = instructions.filter((one) => one.selfSamples > 0);
  const seen = `${instructions.length} instructions, ${hit.length} with samples`;
  say(hit.length > 0, `${what}: the assembly code is shown (${seen})`, `${seen} ${warnings}`);
}

/** Checks that the viewer finds a file of Rust's standard library in the toolchain of this user. */
async function checkStandardLibrary(viewer, functions, where) {
  const start = functions.find(({ name }) => name.startsWith("std::rt::lang_start"));
  const { srcAnnotation } = start === undefined ? {} : await annotate(viewer, start.functionHandle, "src");
  const form = /^git:github\.com\/rust-lang\/rust:library\/std\/src\/rt\.rs:[0-9a-f]{40}$/;
  const file = srcAnnotation?.filename;
  say(form.test(file), `${where}: a file of the standard library is ${file}`, `${start?.name} in ${file}`);
  const lines = srcAnnotation?.lines ?? [];
  const isShown = lines.length > 0 && lines.every((line) => line.sourceText === standardLine(line.lineNumber));
  say(isShown, `${where}: its text is that of the toolchain`, JSON.stringify(lines));
}

/**
 * Checks the shares of one thread. Returns the number of its samples, and how many of them each
 * function has.
 */
async function checkThread(viewer, thread, expect) {
  const where = `"${thread.processName}"`;
  const details = await viewer.ask("thread", "info", "--thread", thread.threadHandle);
  say(details.sampleCount >= expect.leastSamples, `${where} has samples (${details.sampleCount})`, details.sampleCount);
  await viewer.ask("thread", "select", thread.threadHandle);
  const { functions } = await viewer.ask("thread", "functions", "--limit", "0");
  const named = (name) => functions.find((f) => f.name === name);
  const samples = details.sampleCount;
  const self = new Map();
  for (const { name, total } of expect.callers) {
    const found = named(name)?.totalPercentage;
    say(near(found, total, samples), `${where}: ${name} has ${total} % with what it calls (${found})`, found);
  }
  for (const wanted of expect.functions) {
    const found = named(wanted.name);
    const share = found?.selfPercentage;
    say(near(share, wanted.self, samples), `${where}: ${wanted.name} has ${wanted.self} % (${share})`, share);
    self.set(wanted.name, (share ?? 0) / 100 * samples);
    if (found === undefined) continue;
    const shown = await linesOf(viewer, found.functionHandle);
    const { file } = shown;
    const lines = shown.lines.map((line) => line.lineNumber);
    say(file?.endsWith(wanted.file), `${where}: ${wanted.name} is in ${wanted.file}`, file);
    const within = (line, { lines: [first, last] }) => line >= first && line <= last;
    const own = lines.filter((line) => within(line, wanted));
    say(own.length > 0, `${where}: ${wanted.name} runs on lines ${wanted.lines.join(" to ")} (${own})`, lines);
    // The viewer counts the lines of a whole file, for all functions in it.
    const known = expect.functions.filter((other) => other.file === wanted.file);
    const strange = lines.filter((line) => !known.some((other) => within(line, other)));
    say(strange.length === 0, `${where}: nothing in ${wanted.file} runs anywhere else`, strange);
    if (viewer.symbolServer !== undefined) {
      await checkCode(viewer, found.functionHandle, shown, `${where}: ${wanted.name}`);
    }
  }
  if (viewer.symbolServer !== undefined) await checkStandardLibrary(viewer, functions, where);
  return { samples, self };
}

/** Checks the shares of all processes together, which chance changes less than those of one. */
function checkTogether(threads, expect) {
  const samples = threads.reduce((sum, thread) => sum + thread.samples, 0);
  for (const { name, self } of expect.functions) {
    const own = threads.reduce((sum, thread) => sum + (thread.self.get(name) ?? 0), 0);
    const share = own / samples * 100;
    say(near(share, self, samples), `all processes: ${name} has ${self} % of ${samples} samples (${share})`, share);
  }
}

async function checkShares(profile, expect, server) {
  const viewer = new Viewer(profile, server);
  try {
    await viewer.load();
    const { threads } = await viewer.ask("thread", "list", "--limit", "0", "--sort", "index");
    const seen = [];
    for (const process of expect.processes) {
      const main = threads.filter((thread) => thread.processName === process && thread.name === "GeckoMain");
      say(main.length === 1, `"${process}" is there`, threads.map((t) => `${t.processName}/${t.name}`).join(", "));
      if (main.length === 1) seen.push(await checkThread(viewer, main[0], expect));
    }
    checkTogether(seen, expect);
  } finally {
    await viewer.close();
  }
}

async function main([profile, expectFile, profiler]) {
  needNode(fileURLToPath(import.meta.url));
  try {
    for (const file of [profile, expectFile]) {
      if (file === undefined || !existsSync(file)) throw new CannotRun(`no such file: ${file}`);
    }
    const expect = JSON.parse(readFileSync(expectFile, "utf8"));
    const server = profiler === undefined ? undefined : await symbolServer(profiler, profile);
    try {
      await checkShares(realpathSync(profile), expect, server?.url);
    } finally {
      await server?.end();
    }
  } catch (error) {
    if (!(error instanceof Refused)) {
      console.log(`cannot run: ${error instanceof CannotRun ? error.message : error.stack}`);
      return 2;
    }
    say(false, "the viewer answers", error.message);
  }
  console.log(`${passes} passed, ${failures} failed`);
  return failures > 0 ? 1 : 0;
}

process.exitCode = await main(process.argv.slice(2));
