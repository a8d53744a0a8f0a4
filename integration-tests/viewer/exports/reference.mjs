// What the exported `.cpuprofile` files say by themselves: the self times of every thread's functions, as a reader of
// the format adds them up (a sample lasts until the next one, the last until the end). Everything else is held against it.

import { readFileSync } from "node:fs";
import { join } from "node:path";

/** Self time in microseconds and samples of each function, by name. */
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

/** All threads of an export. */
export function readReference(directory) {
  const index = JSON.parse(readFileSync(join(directory, "index.json"), "utf8"));
  return index.profiles.map((row) => {
    const profile = JSON.parse(readFileSync(join(directory, row.file), "utf8"));
    return { ...row, name: `${row.process} / ${row.thread}`, profile, ...selfTimes(profile) };
  });
}

/** The functions that have at least this part of a thread's time, but for what is no function. */
export function busiest(thread, least) {
  const all = [...thread.self].filter(([name, us]) => us >= thread.total * least && !/^\((root|idle|program)\)$/.test(name));
  return all.sort(([, one], [, other]) => other - one);
}

/** Whether two times differ by no more than this part of the whole. */
export function near(one, other, whole, part) {
  return one !== undefined && Math.abs(one - other) <= whole * part;
}
