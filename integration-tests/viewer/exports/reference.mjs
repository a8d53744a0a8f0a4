// Reads the exported `.cpuprofile` files: the self times of every thread's functions, as a reader
// of the format adds them up (a sample lasts until the next one, the last sample until the end).
// All other exports are compared with these times.

import { readFileSync } from "node:fs";
import { join } from "node:path";

/** Returns the self time in microseconds and the samples of each function, by name. */
export function selfTimes(profile) {
  const names = new Map(profile.nodes.map((node) => [node.id, node.callFrame.functionName]));
  const self = new Map();
  const hits = new Map();
  let at = profile.startTime;
  profile.samples.forEach((id, index) => {
    at += profile.timeDeltas[index];
    const last = index + 1 === profile.samples.length;
    const length = last ? profile.endTime - at : profile.timeDeltas[index + 1];
    const name = names.get(id);
    self.set(name, (self.get(name) ?? 0) + length);
    hits.set(name, (hits.get(name) ?? 0) + 1);
  });
  return { self, hits, total: profile.endTime - profile.startTime, samples: profile.samples.length };
}

/** Returns all threads of an export. */
export function readReference(directory) {
  const index = JSON.parse(readFileSync(join(directory, "index.json"), "utf8"));
  return index.profiles.map((row) => {
    const profile = JSON.parse(readFileSync(join(directory, row.file), "utf8"));
    return { ...row, name: `${row.process} / ${row.thread}`, profile, ...selfTimes(profile) };
  });
}

/**
 * Returns the functions that have at least this part of a thread's time, without entries that are
 * not functions.
 */
export function busiest(thread, least) {
  const all = [...thread.self].filter(([name, us]) => us >= thread.total * least && !/^\((root|idle|program)\)$/.test(name));
  return all.sort(([, one], [, other]) => other - one);
}

/** Returns whether two times differ by at most this part of the whole. */
export function near(one, other, whole, part) {
  return one !== undefined && Math.abs(one - other) <= whole * part;
}
