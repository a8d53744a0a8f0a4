// The page of a comparison: chooses processes, time and colours, and shows them in the flame graph.
//
// Reads the object in the element `data`, see data.rs. Every text in it may be foreign: texts are
// only drawn on the canvas or set as text content.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const element = (id) => document.getElementById(id);
const SIDES = ["before", "after"];

/** The amounts of a node: milliseconds, by time and side. */
const TIMES = data.hasCpu ? ["cpu", "wall"] : ["wall"];
const columns = (count) => Object.fromEntries(TIMES.map((time) => [time, SIDES.map(() => new Float64Array(count))]));
const TIME_NAMES = { cpu: "processor time", wall: "time, running or waiting" };

const choice = { process: -1, time: data.by, change: "total", width: "both", inverted: false, search: "" };
let tree;
let graph;

/**
 * The nodes of the chosen processes as one tree. Node 0 is the root; its children are one node per
 * process if there are several.
 */
function chosenTree() {
  const chosen = choice.process < 0 ? data.processes : [data.processes[choice.process]];
  const isOne = chosen.length === 1;
  const count = 1 + chosen.reduce((sum, process) => sum + process.callers.length + (isOne ? 0 : 1), 0);
  const made = { parents: new Int32Array(count), texts: new Array(count), functions: new Int32Array(count).fill(-1), process: new Array(count), own: columns(count), total: columns(count) };
  made.parents[0] = -1;
  made.texts[0] = isOne ? chosen[0].name : "all processes";
  made.process[0] = isOne ? chosen[0] : undefined;
  let next = 1;
  for (const process of chosen) {
    let top = 0;
    if (!isOne) {
      top = next++;
      made.texts[top] = process.name;
      made.process[top] = process;
    }
    for (const time of TIMES) for (const side of [0, 1]) made.own[time][side][top] += process.all[time][side];
    const first = next;
    process.callers.forEach((caller, node) => {
      const at = next++;
      made.parents[at] = caller < 0 ? top : first + caller;
      made.functions[at] = process.functions[node];
      made.texts[at] = data.names[process.functions[node]];
      made.process[at] = process;
      for (const time of TIMES) for (const side of [0, 1]) {
        const own = process.own[time][side][node];
        made.own[time][side][at] = own;
        // The time of a process is the time of its functions, so the process has no self time.
        made.own[time][side][top] -= own;
      }
    });
  }
  addUp(made);
  return made;
}

function addUp(made) {
  for (const time of TIMES) for (const side of [0, 1]) {
    const [own, total] = [made.own[time][side], made.total[time][side]];
    // Rounded numbers may add up to slightly more than their sum.
    for (let node = 0; node < own.length; node += 1) total[node] = own[node] = Math.max(own[node], 0);
    for (let node = own.length - 1; node > 0; node -= 1) total[made.parents[node]] += total[node];
  }
}

/**
 * The tree from the innermost functions to their callers. A node's time is that of the innermost
 * function on its path.
 */
function inverted(from) {
  const nodes = [{ parent: -1, text: from.texts[0], function: -1, process: from.process[0] }];
  const amounts = [TIMES.map((time) => SIDES.map((_, side) => from.total[time][side][0]))];
  const known = new Map();
  const child = (parent, node) => {
    const key = `${parent} ${from.functions[node]} ${from.functions[node] < 0 ? node : ""}`;
    let at = known.get(key);
    if (at === undefined) {
      at = nodes.length;
      known.set(key, at);
      nodes.push({ parent, text: from.texts[node], function: from.functions[node], process: from.process[node] });
      amounts.push(TIMES.map(() => [0, 0]));
    }
    // A function of several processes has no mark.
    if (nodes[at].process !== from.process[node]) nodes[at].process = undefined;
    return at;
  };
  for (let leaf = 1; leaf < from.parents.length; leaf += 1) {
    const own = TIMES.map((time) => SIDES.map((_, side) => from.own[time][side][leaf]));
    if (own.every(([before, after]) => before === 0 && after === 0)) continue;
    let at = 0;
    for (let node = leaf; node > 0; node = from.parents[node]) {
      at = child(at, node);
      own.forEach((sides, time) => sides.forEach((ms, side) => { amounts[at][time][side] += ms; }));
    }
  }
  const count = nodes.length;
  const made = { parents: new Int32Array(count), texts: [], functions: new Int32Array(count), process: [], own: columns(count), total: columns(count) };
  nodes.forEach((node, at) => {
    made.parents[at] = node.parent;
    made.texts.push(node.text);
    made.functions[at] = node.function;
    made.process.push(node.process);
    TIMES.forEach((time, number) => [0, 1].forEach((side) => {
      made.total[time][side][at] = amounts[at][number][side];
      made.own[time][side][at] = amounts[at][number][side];
    }));
  });
  return made;
}

const share = (amounts, side, node) => {
  const all = tree.total[choice.time][side][0];
  return all > 0 ? (amounts[choice.time][side][node] / all) * 100 : 0;
};
const change = (node, kind = choice.change) => share(tree[kind], 1, node) - share(tree[kind], 0, node);
const signed = (points) => `${points < 0 ? "−" : "+"}${Math.abs(points).toFixed(1)}`;

/** The row of a function in the table of changes, if its change is large enough for it. */
function changeOf(node) {
  const of = tree.process[node];
  if (!of || tree.functions[node] < 0) return undefined;
  of.byFunction ??= new Map(of.changes.map((row) => [row.function, row]));
  return of.byFunction.get(tree.functions[node])?.[choice.time];
}
const isMarked = (node) => changeOf(node)?.[choice.inverted || choice.change === "own" ? "self" : "total"].mark === true;

/** The change with the strongest colour. Larger changes have the same colour. */
let strongest = 1;
const PALETTE = () => {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(["neutral", "grew", "shrank"].map((name) => [name, style.getPropertyValue(`--${name}`).trim().match(/[0-9a-f]{2}/gi).map((part) => parseInt(part, 16))]));
};
let palette = PALETTE();

function colorOf(points) {
  // The square root makes small changes distinguishable.
  const part = Math.sqrt(Math.min(Math.abs(points) / strongest, 1));
  const end = points < 0 ? palette.shrank : palette.grew;
  return palette.neutral.map((one, place) => Math.round(one + (end[place] - one) * (Math.abs(points) < 0.05 ? 0 : part)));
}

const matches = (text) => choice.search !== "" && text.toLowerCase().includes(choice.search);

function values() {
  const count = tree.parents.length;
  return Float64Array.from({ length: count }, (_, node) => {
    const [before, after] = [share(tree.total, 0, node), share(tree.total, 1, node)];
    return { before, after, both: (before + after) / 2 }[choice.width];
  });
}

function show() {
  tree = chosenTree();
  if (choice.inverted) tree = inverted(tree);
  strongest = 0.5;
  for (let node = 1; node < tree.parents.length; node += 1) strongest = Math.max(strongest, Math.abs(change(node)));
  graph.show({
    parents: tree.parents,
    values: values(),
    text: (node) => `${tree.texts[node]}${node > 0 ? `  ${signed(change(node))}${isMarked(node) ? " *" : ""}` : ""}`,
    fill: (node) => colorOf(node > 0 ? change(node) : 0),
    isFaint: (node) => choice.search !== "" && !matches(tree.texts[node]),
  });
  describe(0);
  showTotals();
  showLegend();
  showFound();
  showChanges();
}

function showTotals() {
  const ms = (side) => `${tree.total[choice.time][side][0].toFixed(1)} ms`;
  element("total-before").textContent = ms(0);
  element("total-after").textContent = ms(1);
  const [before, after] = [0, 1].map((side) => tree.total[choice.time][side][0]);
  const percent = before > 0 && after > 0 ? ` (${signed((after / before - 1) * 100)} %)` : "";
  element("total-change").textContent = `${TIME_NAMES[choice.time]} per run${percent}`;
  const isEmpty = before === 0 || after === 0;
  element("empty").textContent = isEmpty ? "There are no samples on one side: the shares of that side are 0." : "";
}

function showLegend() {
  const steps = 21;
  const bar = element("legend");
  bar.replaceChildren(...Array.from({ length: steps }, (_, step) => {
    const block = document.createElement("span");
    const points = ((step - (steps - 1) / 2) / ((steps - 1) / 2)) * strongest;
    block.style.backgroundColor = `rgb(${colorOf(points).join(" ")})`;
    return block;
  }));
  element("legend-low").textContent = `${signed(-strongest)} points`;
  element("legend-high").textContent = `${signed(strongest)} points`;
}

/** Describes a frame in the line below the graph. */
function describe(node) {
  if (node < 0) node = graph.zoomed;
  const line = (kind) => `${kind === "own" ? "self" : "total"} ${share(tree[kind], 0, node).toFixed(2)} % → ${share(tree[kind], 1, node).toFixed(2)} % (${signed(change(node, kind))} points; ${tree[kind][choice.time][0][node].toFixed(1)} → ${tree[kind][choice.time][1][node].toFixed(1)} ms)`;
  element("frame-name").textContent = tree.texts[node];
  element("frame-numbers").textContent = choice.inverted || node === 0 ? line("total") : `${line("total")}; ${line("own")}`;
  const row = changeOf(node);
  const whole = (kind) => `${kind} ${row[kind].before.toFixed(1)} % → ${row[kind].after.toFixed(1)} %${row[kind].mark ? " *" : ""}`;
  element("frame-function").textContent = row ? `the function in all of its callers: ${whole("self")}; ${whole("total")}` : "";
}

/** The share of the found frames. A frame within another found frame is not added again. */
function showFound() {
  const found = [0, 0];
  let count = 0;
  const isWithin = new Uint8Array(tree.parents.length);
  for (let node = 1; node < tree.parents.length; node += 1) {
    const isFound = matches(tree.texts[node]);
    if (isFound) count += 1;
    if (isFound && !isWithin[tree.parents[node]]) [0, 1].forEach((side) => { found[side] += share(tree.total, side, node); });
    isWithin[node] = isFound || isWithin[tree.parents[node]] ? 1 : 0;
  }
  element("found").textContent = choice.search === "" ? "" : `${count} ${count === 1 ? "frame" : "frames"}: ${found[0].toFixed(1)} % → ${found[1].toFixed(1)} % (${signed(found[1] - found[0])})`;
}

/** The table of the functions whose change is large, by process. */
function showChanges() {
  const chosen = choice.process < 0 ? data.processes : [data.processes[choice.process]];
  const rows = chosen.flatMap((process) => process.changes.filter((row) => row[choice.time]).map((row) => ({ process, row, shares: row[choice.time] })));
  const size = ({ shares }) => Math.max(Math.abs(shares.self.after - shares.self.before), Math.abs(shares.total.after - shares.total.before) / 1e3);
  const isOne = chosen.length === 1;
  const cell = (text, className = "") => Object.assign(document.createElement("td"), { textContent: text, className });
  const numbers = ({ before, after, mark }) => [cell(before.toFixed(1)), cell(after.toFixed(1)), cell(`${signed(after - before)}${mark ? " *" : ""}`, mark ? "marked" : "")];
  const shown = rows.sort((one, other) => size(other) - size(one)).slice(0, 50);
  element("changes").tBodies[0].replaceChildren(...shown.map(({ process, row, shares }) => {
    const line = document.createElement("tr");
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: data.names[row.function], title: "Search the graph for it" });
    button.addEventListener("click", () => search(data.names[row.function]));
    const name = cell("", "text");
    name.append(button);
    if (!isOne) name.append(` in ${process.name}`);
    line.append(...numbers(shares.self), ...numbers(shares.total), name);
    return line;
  }));
  const more = rows.length - shown.length;
  element("changes-note").textContent = rows.length === 0 ? "No function's share changed enough." : more > 0 ? `and ${more} more` : "";
}

function search(text) {
  element("search").value = text;
  choice.search = text.trim().toLowerCase();
  showFound();
  graph.redraw();
}

function option(value, text) {
  return Object.assign(document.createElement("option"), { value: String(value), textContent: text });
}

function begin() {
  graph = new FlameGraph(element("scroll"), element("graph"), { onPoint: describe, onZoom: describe });
  element("graph").flameGraph = graph;
  for (const side of SIDES) {
    const files = data.files[side];
    element(`files-${side}`).textContent = files.length === 1 ? files[0] : `${files.length} runs`;
    element(`files-${side}`).title = files.join("\n");
  }
  element("process").append(...data.processes.map((process, place) => option(place, process.name)));
  if (data.processes.length > 1) element("process").prepend(option(-1, "all processes"));
  else choice.process = 0;
  element("process").value = String(choice.process);
  element("time").append(...TIMES.map((time) => option(time, TIME_NAMES[time])));
  element("time").value = choice.time;
  element("marks").textContent = data.marks;
  element("left-out").textContent = data.leftOut.nodes > 0 ? `${data.leftOut.nodes} of ${data.leftOut.of} frames are too small to be shown; they are drawn together as “${data.names[0]}”.` : "";
  for (const [id, key] of [["process", "process"], ["time", "time"], ["change", "change"], ["width", "width"]]) {
    element(id).addEventListener("change", (event) => {
      choice[key] = key === "process" ? Number(event.target.value) : event.target.value;
      show();
    });
  }
  element("invert").addEventListener("change", (event) => { choice.inverted = event.target.checked; show(); });
  element("search").addEventListener("input", (event) => search(event.target.value));
  element("reset").addEventListener("click", () => { search(""); graph.zoom(0); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { palette = PALETTE(); showLegend(); graph.redraw(); });
  show();
}

if (data.processes.length > 0) begin();
else element("empty").textContent = "The profiles have no processes with samples.";
