// How long the real viewer's loader takes to open profiles.
//
//   node load.mjs PROFILE...
//
// One line per profile, `SECONDS SAMPLES PROFILE`: the time of the loader's own command `load`, which starts a
// process, reads, unpacks, converts and derives all tables that the page draws from; and how many samples the viewer
// found in all threads. The start of that process is in it: load a small profile to see how long that is.
// Exit codes as of check.mjs.

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
