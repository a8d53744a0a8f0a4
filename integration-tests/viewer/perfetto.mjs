// Checks that traces of profiles open in Perfetto's own engine with all that the profiles have.
//
//   node perfetto.mjs PROFILER PROFILE...
//
// PROFILER is the `profiler` command, and each PROFILE is in the processed format. Prints one line
// per check, `ok ...` or `FAIL ...`. The exit codes are those of check.mjs.

import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

import { needNode } from "./check.mjs";

needNode(fileURLToPath(import.meta.url));

const { check, exportFor } = await import("./exports/perfetto.mjs");
const { readReference } = await import("./exports/reference.mjs");

async function main([profiler, ...profiles]) {
  if (profiles.length === 0) {
    console.log("usage: node perfetto.mjs PROFILER PROFILE...");
    return 2;
  }
  let passes = 0;
  let failures = 0;
  for (const profile of profiles) {
    const work = mkdtempSync(join(realpathSync(tmpdir()), "perfetto-"));
    try {
      exportFor(realpathSync(profiler), profile, work);
      const reference = readReference(join(work, "cpuprofile"));
      await check({ profile, work, directory: work, reference }, (good, what) => {
        if (good) passes += 1;
        else failures += 1;
        console.log(`${good ? "ok  " : "FAIL"} ${basename(profile)}: ${what}`);
      });
    } finally {
      rmSync(work, { recursive: true, force: true, maxRetries: 5 });
    }
  }
  console.log(`${passes} passed, ${failures} failed`);
  return failures > 0 ? 1 : 0;
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  console.log(`cannot run: ${error.stack}`);
  process.exitCode = 2;
}
