// Opens a profile in the way a user does: `profiler view` serves it, and the real viewer's loader
// follows the link.
//
//   node link.mjs PROFILER PROFILE       PROFILER is the command, PROFILE a file for it
//
// Prints one line per check, `ok ...` or `FAIL ...`. Exit code 0: all passed; 1: a check failed; 2:
// it could not run. The only connections are to the server on this machine: the link contains the
// addresses of the profile and of the symbols.

import { execFile, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { needNode } from "./check.mjs";

const HERE = dirname(fileURLToPath(import.meta.url));
const CLI = join(HERE, "node_modules/@firefox-devtools/profiler-cli/dist/profiler-cli.js");
const SECONDS = 180;
const SESSION = "link";

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

const directory = mkdtempSync("/tmp/link-");
const env = {
  PATH: process.env.PATH,
  HOME: directory,
  TMPDIR: directory,
  PROFILER_CLI_SESSION_DIR: directory,
  PROFILER_CLI_LOAD_TIMEOUT_MS: String(SECONDS * 1000),
};

/** Returns the viewer's answer to a question. */
function ask(...question) {
  const options = { env, timeout: SECONDS * 1000, killSignal: "SIGKILL", maxBuffer: 2 ** 29 };
  return new Promise((resolve, reject) => {
    execFile(process.execPath, [CLI, ...question, "--session", SESSION], options, (error, stdout, stderr) =>
      error ? reject(new Error(stderr.trim() || error.message)) : resolve(stdout),
    ).stdin.end();
  });
}

const server = spawn(profiler, ["view", "--no-open", profile], { stdio: ["ignore", "pipe", "ignore"] });
const ended = new Promise((resolve) => server.on("exit", (code, signal) => resolve(signal ?? code)).on("error", resolve));
try {
  const printed = new Promise((resolve) => createInterface(server.stdout).once("line", resolve));
  const link = await Promise.race([printed, ended]);
  check(/^https:\/\/[^/]+\/from-url\/http/.test(link), `a link is printed: ${link}`);
  await ask("load", String(link));
  const listed = JSON.parse(await ask("thread", "list", "--limit", "0", "--json"));
  check(listed.threads.length > 0, `the viewer has followed it: ${listed.threads.length} threads`);
  const log = readFileSync(join(directory, `${SESSION}.log`), "utf8").split("\n");
  const complaints = log.filter((line) => /^\[(WARN|ERROR)\]/.test(line));
  check(complaints.length === 0, `the viewer complains of nothing ${complaints.slice(0, 3).join("; ")}`);
} catch (error) {
  check(false, error.message);
} finally {
  await ask("stop", SESSION).catch(() => {});
  server.kill("SIGTERM");
  check((await ended) === 0, "the command ends in order");
  rmSync(directory, { recursive: true, force: true });
}
process.exitCode = failed > 0 ? 1 : 0;
