// Opens a profile in the way a user does: `profiler view` serves it, and the real viewer's loader
// follows the link.
//
//   node link.mjs PROFILER PROFILE       PROFILER is the command, PROFILE a file for it
//
// Prints one line per check, `ok ...` or `FAIL ...`. Exit code 0: all passed; 1: a check failed; 2:
// it could not run. The only connections are to the server on this machine: the link contains the
// addresses of the profile and of the symbols.

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { CLI, Viewer, needNode } from "./check.mjs";

needNode(process.argv[1]);
const [profiler, profile] = process.argv.slice(2);
if (process.argv.length !== 4 || !existsSync(CLI)) {
  console.log(existsSync(CLI) ? "usage: node link.mjs PROFILER PROFILE" : "cannot run: no viewer: run `npm ci` here");
  process.exit(2);
}

let failed = 0;
function check(passed, what) {
  if (!passed) failed += 1;
  console.log(`${passed ? "ok" : "FAIL"} ${what}`);
}

const server = spawn(profiler, ["view", "--no-open", profile], { stdio: ["ignore", "pipe", "ignore"] });
const ended = new Promise((resolve) => server.on("exit", (code, signal) => resolve(signal ?? code)).on("error", resolve));
let viewer;
try {
  const printed = new Promise((resolve) => createInterface(server.stdout).once("line", resolve));
  const link = await Promise.race([printed, ended]);
  check(/^https:\/\/[^/]+\/from-url\/http/.test(link), `a link is printed: ${link}`);
  viewer = new Viewer(String(link));
  await viewer.load();
  const { threads } = await viewer.ask("thread", "list", "--limit", "0");
  check(threads.length > 0, `the viewer has followed it: ${threads.length} threads`);
  const complaints = viewer.complaints();
  check(complaints.length === 0, `the viewer complains of nothing ${complaints.slice(0, 3).join("; ")}`);
} catch (error) {
  check(false, error.message);
} finally {
  await viewer?.close();
  server.kill("SIGTERM");
  check((await ended) === 0, "the command ends in order");
}
process.exitCode = failed > 0 ? 1 : 0;
