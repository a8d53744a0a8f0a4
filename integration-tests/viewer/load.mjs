// Measures how long the real viewer's loader takes to open profiles.
//
//   node load.mjs PROFILE...
//
// Prints one line per profile, `SECONDS SAMPLES PROFILE`: the time of the loader's own command
// `load`, and the number of samples that the viewer found in all threads. The command starts a
// process, reads, decompresses and converts the profile, and derives all tables from which the page
// draws. The start of that process is included: the time of a small profile shows how long it is.
// The exit codes are those of check.mjs.

import { existsSync, realpathSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { CannotRun, Refused, Viewer, needNode } from "./check.mjs";

async function load(profile) {
  if (!existsSync(profile)) throw new CannotRun(`no such file: ${profile}`);
  const viewer = new Viewer(realpathSync(profile));
  try {
    await viewer.load();
    const { threads } = await viewer.ask("thread", "list", "--limit", "0", "--sort", "index");
    let samples = 0;
    for (const { threadHandle } of threads) {
      samples += (await viewer.ask("thread", "info", "--thread", threadHandle)).sampleCount;
    }
    console.log(`${viewer.loadSeconds.toFixed(3)} ${samples} ${profile}`);
  } finally {
    await viewer.close();
  }
}

needNode(fileURLToPath(import.meta.url));
try {
  for (const profile of process.argv.slice(2)) await load(profile);
} catch (error) {
  console.log(`cannot run: ${error instanceof CannotRun || error instanceof Refused ? error.message : error.stack}`);
  process.exitCode = error instanceof Refused ? 1 : 2;
}
