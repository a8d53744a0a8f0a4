// The script of the live page: requests live.json once a second and shows it. `want` holds the
// parameters of the request. flame.js shows the flame graph, and waits.js shows who waits for whom.
//
// Names come from the observed programs, so they are never inserted as HTML.

import { flameGraph } from "./flame.js";
import { waitGraph } from "./waits.js";

const EVERY_MS = 1000;
const want = {
  window: "start", sort: "wall", order: "desc", top: "25", kind: "", find: "",
  psort: "cpu", porder: "desc", ptop: "20",
};
const open = new Set();
let paused = false;
let latest = null;
let shownMarkers = [];
let lastMarker = 0;
let leftOut = 0;

const by = (id) => document.getElementById(id);

/** Makes an element with attributes and children. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

// ---- formatting of numbers ----

function time(ns) {
  if (ns === null || ns === undefined) return "";
  if (ns < 1e3) return `${ns} ns`;
  if (ns < 1e6) return `${digits(ns / 1e3)} µs`;
  if (ns < 1e9) return `${digits(ns / 1e6)} ms`;
  if (ns < 120e9) return `${digits(ns / 1e9)} s`;
  const minutes = Math.floor(ns / 60e9);
  return minutes < 120 ? `${minutes} min` : `${digits(minutes / 60)} h`;
}
function digits(number) {
  return number >= 100 ? number.toFixed(0) : number >= 10 ? number.toFixed(1) : number.toFixed(2);
}
function bytes(count) {
  if (count === null || count === undefined) return "";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; count >= 1024 && unit < units.length - 1; unit += 1) count /= 1024;
  return unit === 0 ? `${count} B` : `${digits(count)} ${units[unit]}`;
}
function whole(number) {
  return Math.round(number).toLocaleString("en").replaceAll(",", " ");
}
function value(counter) {
  switch (counter.unit) {
    case "bytes": return bytes(counter.value);
    case "percent": return `${digits(counter.value)} %`;
    case "per-second": return `${whole(counter.value)}/s`;
    default: return whole(counter.value);
  }
}

// ---- requests ----

async function ask(path, pairs = []) {
  const query = new URLSearchParams(pairs).toString();
  const response = await fetch(query ? `${path}?${query}` : path);
  if (!response.ok) throw new Error(`the server answers with status ${response.status}`);
  return response.json();
}

let asking = false;
let askAgain = false;
async function refresh() {
  if (asking) { askAgain = true; return; }
  asking = true;
  try {
    const pairs = [...Object.entries(want), ...[...open].map((key) => ["open", key])];
    latest = await ask("live.json", pairs);
    keepInPlace(() => {
      say("");
      show(latest);
    });
  } catch (error) {
    say(`The session has ended or does not answer (${error.message}). The page shows the last data received.`);
  }
  asking = false;
  if (askAgain) { askAgain = false; refresh(); }
}

async function refreshMarkers() {
  if (!by("markers").open) return;
  const filter = { name: by("marker-name").value, process: by("marker-process").value, min_ms: by("marker-min").value };
  try {
    showMarkers(await ask("markers.json", [["after", lastMarker], ...Object.entries(filter)]));
  } catch (error) {
    by("markers-note").textContent = error.message;
  }
}

/** Announces a change of the state of the session to a screen reader, once per change. */
function tell(state) {
  if (by("status").textContent !== state) by("status").textContent = state;
}

function say(trouble) {
  by("trouble").hidden = trouble === "";
  if (by("trouble").textContent !== trouble) by("trouble").textContent = trouble;
}

async function capture(pairs, button) {
  if (button) button.disabled = true;
  const query = new URLSearchParams(pairs).toString();
  try {
    const response = await fetch(`capture?${query}`, { method: "POST" });
    await refresh();
    if (response.status === 409) say("Another profile is being written.");
    else if (!response.ok) say(`No profile: the server answers with status ${response.status}.`);
  } catch (error) {
    say(`No profile: ${error.message}.`);
  }
  if (button) button.disabled = false;
}

// ---- rows that keep their places ----

/** Table bodies that the user has just sorted: their rows move even under the pointer. */
const reorder = new Set();

/**
 * Puts `rows` into a table's body. Elements are kept by key, so the focus is not lost. While the
 * pointer is over the body, or the focus in it, rows keep their places and only their cells change.
 */
function fill(body, rows) {
  const old = new Map([...body.children].map((row) => [row.dataset.key, row]));
  const isHeld = !reorder.delete(body) && (body.matches(":hover") || body.contains(document.activeElement));
  if (isHeld) {
    const place = new Map([...old.keys()].map((key, index) => [key, index]));
    const at = (row) => place.get(row.key) ?? Infinity;
    rows = rows.map((row, index) => [row, index])
      .sort(([a, i], [b, j]) => (at(a) === at(b) ? i - j : at(a) - at(b)))
      .map(([row]) => row);
    rows = keepTogether(rows);
  }
  rows.forEach((row, index) => {
    const element = old.get(row.key) ?? make("tr", { "data-key": row.key });
    old.delete(row.key);
    element.className = row.className ?? "";
    cells(element, row.cells);
    if (body.children[index] !== element) body.insertBefore(element, body.children[index] ?? null);
  });
  old.forEach((element) => element.remove());
}

/**
 * Calls `update`. If it changes the height of what is above the table under the pointer, scrolls the
 * page, so that the table keeps its place in the window.
 */
function keepInPlace(update) {
  const body = document.querySelector("tbody:hover");
  const before = body?.getBoundingClientRect().top;
  update();
  if (body) scrollBy(0, body.getBoundingClientRect().top - before);
}

/** Moves members directly below their groups, also while rows keep their places. */
function keepTogether(rows) {
  const members = Map.groupBy ? Map.groupBy(rows.filter((row) => row.under), (row) => row.under) : new Map();
  return rows.filter((row) => !row.under).flatMap((row) => [row, ...(members.get(row.key) ?? [])]);
}

function cells(element, wanted) {
  wanted.forEach((cell, index) => {
    let td = element.children[index];
    if (!td) element.append((td = make("td")));
    const className = cell.className ?? "";
    if (td.className !== className) td.className = className;
    if (cell.part !== undefined) td.style.setProperty("--part", `${cell.part}%`);
    if (cell.title !== undefined && td.title !== cell.title) td.title = cell.title;
    if (cell.button) buttons(td, [cell.button]);
    else if (cell.buttons) buttons(td, cell.buttons);
    else if (td.textContent !== cell.text) td.textContent = cell.text;
  });
}

/** Fills a cell with buttons. Existing buttons are kept, because they may have the focus. */
function buttons(td, wanted) {
  while (td.childElementCount > wanted.length || (td.firstChild && !td.firstElementChild)) td.lastChild.remove();
  wanted.forEach(({ text, className, expanded, label, press }, place) => {
    let element = td.children[place];
    if (!element) {
      const created = make("button", { type: "button" });
      created.addEventListener("click", () => created.press());
      td.append(created);
      element = created;
    }
    element.press = () => press(element);
    if (element.className !== className) element.className = className;
    if (element.textContent !== text) element.textContent = text;
    if (expanded !== undefined) element.setAttribute("aria-expanded", String(expanded));
    if (label) element.setAttribute("aria-label", label);
  });
}

// ---- parts of the page ----

function show({ session, groups, processes, counters, alerts, profiles }) {
  by("summary").textContent =
    `${session.running} of ${session.processes + session.earlier_processes} processes running, ` +
    `${bytes(session.held_bytes)} of ${bytes(session.memory_limit)} recorded, ` +
    `for ${time(session.at_ns)}`;
  tell(session.running > 0 ? "Processes are running." : "No process is running.");
  showGroups(groups);
  showProcesses(processes);
  showCounters(counters);
  showAlerts(alerts, session.at_ns);
  showDeadlocks(session.deadlocks);
  showProfiles(profiles);
}

function showGroups(table) {
  const most = Math.max(1, ...table.rows.map((row) => row.wall_ns));
  const rows = table.rows.flatMap((row) => {
    const group = { key: row.key, cells: groupCells(row, most) };
    const members = (row.members ?? []).map((member) => ({
      key: `${row.key}/${member.id}`, under: row.key, className: "member", cells: memberCells(member, most),
    }));
    return [group, ...members];
  });
  fill(by("groups").tBodies[0], rows);
  by("groups-count").textContent = `${table.rows.length} of ${table.total}`;
  const notes = [table.window === "start" ? "" : `What was done in the last ${time(table.interval_ns)}.`];
  if (table.total === 0) notes.push("No group has been entered yet.");
  if (table.left_out > 0) notes.push(`${table.left_out} groups found no room in their processes.`);
  const missing = table.missing.map((one) => `${one.name} (${one.pid}): ${one.why}`);
  if (missing.length > 0) notes.push(`Not read: ${missing.slice(0, 5).join("; ")}${missing.length > 5 ? "; …" : ""}.`);
  by("groups-note").textContent = notes.join(" ").trim();
  mark(by("groups"), "sort", table.sort, table.order);
}

function groupCells(row, most) {
  const labels = row.labels.map(([key, text]) => `${key}=${text}`).join(" ");
  const expanded = open.has(row.key);
  const press = () => {
    if (expanded) open.delete(row.key); else open.add(row.key);
    refresh();
  };
  const name = labels ? `${row.name} ${labels}` : row.name;
  return [
    { className: "text name", title: name, button: { text: name, className: "row-button", expanded, press } },
    { className: "text", text: row.kind },
    ...numbers(row, most),
    { className: row.processes ? "" : "zero", text: whole(row.processes) },
    evidence(row, `the longest run of ${row.kind} ${row.name}`, `${row.kind}:${row.name}`),
  ];
}

function memberCells(row, most) {
  const frozen = row.standing === "live" ? "" : ` (${row.standing})`;
  return [
    { className: "text name", title: row.process, text: `${row.process} ${row.pid}${frozen}` },
    { className: "text", text: "" },
    ...numbers(row, most),
    { text: "" },
    evidence(row, `the longest run in ${row.process}`),
  ];
}

function numbers(row, most) {
  const of = (ns) => ({ className: ns ? "" : "zero", text: ns ? time(ns) : "–" });
  return [
    { ...of(row.wall_ns), className: row.wall_ns ? "share" : "zero", part: (100 * row.wall_ns) / most },
    of(row.cpu_ns), of(row.off_cpu_ns), of(row.blocking_ns),
    { className: row.ticks ? "" : "zero", text: whole(row.ticks) },
    of(row.median_ns), of(row.p99_ns), of(row.longest_ns),
    { className: row.janky ? "bad" : "zero", text: row.janky ? whole(row.janky) : "–" },
  ];
}

function evidence(row, what, group) {
  const press = (button) => capture([["from", row.peak.from], ["to", row.peak.to], ["what", what]], button);
  const profile = { text: "profile", className: "small", label: `Profile of ${what}`, press };
  const show = { text: "flames", className: "small", label: `Flame graph of ${group}`, press: () => flames.choose({ group }) };
  const buttons = [...(row.peak ? [profile] : []), ...(group ? [show] : [])];
  return buttons.length > 0 ? { buttons } : { text: "" };
}

function showProcesses(table) {
  const rows = table.rows.map((row) => ({
    key: row.key,
    className: row.runs ? "" : "gone",
    cells: [
      {
        className: "text name", title: row.name,
        button: { text: row.name, className: "plain", label: `Flame graph of ${row.name} (${row.pid})`, press: () => flames.choose({ process: row.key }) },
      },
      { text: String(row.pid) },
      { className: `text state${isWell(row) ? "" : " bad"}`, title: row.state, text: row.state },
      {
        title: row.in_samples_pct === null ? "" : `${Math.floor(row.in_samples_pct)} % of its processor time is in samples`,
        text: row.cpu_pct === null ? "" : `${digits(row.cpu_pct)} %`,
      },
      { text: bytes(row.resident_bytes) },
      {
        className: row.excess_bytes ? "bad" : "share", part: row.allowance ? Math.min(100, (100 * row.held_bytes) / row.allowance) : 0,
        title: `${bytes(row.held_bytes)} of ${bytes(row.allowance)}${row.owed_bytes ? `, owes ${bytes(row.owed_bytes)}` : ""}`,
        text: bytes(row.held_bytes),
      },
      { text: row.rate === null ? "" : whole(row.rate), title: `${whole(row.recorded)} in all` },
      {
        className: row.dropped ? "bad" : "zero",
        title: Object.entries(row.dropped_by).map(([why, count]) => `${why}: ${whole(count)}`).join(", "),
        text: row.dropped || row.evicted ? `${whole(row.dropped)}, ${whole(row.evicted)}` : "–",
      },
    ],
  }));
  fill(by("processes").tBodies[0], rows);
  by("processes-count").textContent = `${table.rows.length} of ${table.total}`;
  mark(by("processes"), "psort", table.sort, table.order);
}

function isWell(row) {
  return /^(parent|recording|starting|exited with code 0|ended)/.test(row.state);
}

function showCounters(counters) {
  const cards = by("counters");
  const old = new Map([...cards.children].map((card) => [card.dataset.name, card]));
  for (const counter of counters) {
    const card = old.get(counter.name) ?? newCard(counter.name);
    old.delete(counter.name);
    card.querySelector("p").textContent = value(counter);
    draw(card, counter.values);
    if (!card.isConnected) cards.append(card);
  }
  old.forEach((card) => card.remove());
}

function newCard(name) {
  const card = make("div", { class: "card", "data-name": name }, make("h3", { title: name }, name), make("p"));
  card.insertAdjacentHTML(
    "beforeend",
    '<svg viewBox="0 0 100 34" preserveAspectRatio="none" aria-hidden="true"><polygon/><polyline/></svg>',
  );
  return card;
}

function draw(card, values) {
  const low = Math.min(0, ...values), high = Math.max(...values, low + 1e-9);
  const step = values.length > 1 ? 100 / (values.length - 1) : 0;
  const points = values.map((one, index) => `${(index * step).toFixed(1)},${(32 - (30 * (one - low)) / (high - low)).toFixed(1)}`);
  if (points.length === 1) points.push(`100,${points[0].split(",")[1]}`);
  card.querySelector("polyline").setAttribute("points", points.join(" "));
  card.querySelector("polygon").setAttribute("points", `0,34 ${points.join(" ")} 100,34`);
}

function showAlerts(alerts, now) {
  by("alerts").hidden = alerts.length === 0;
  by("alerts-count").textContent = alerts.length ? String(alerts.length) : "";
  list(by("alerts-list"), alerts, (alert) => String(alert.number), (alert) => {
    const what = `alert ${alert.number}: ${alert.kind} ${alert.group}`;
    const press = (event) => capture([["alert", alert.number], ["what", what]], event.currentTarget);
    return [
      make("span", { class: "grow" },
        make("strong", {}, alert.group), ` (${alert.kind}) took `, make("span", { class: "bad" }, time(alert.highest_ns)),
        `${alert.runs > 1 ? `, ${alert.runs} runs` : ""}${alert.blocking_ns ? `, waited ${time(alert.blocking_ns)}` : ""}`,
        ` in ${alert.process_name} ${alert.process}`),
      make("span", { class: "count", "data-at": alert.to }),
      make("button", { type: "button", class: "small", "aria-label": `Evidence of ${what}`, onclick: press }, "evidence"),
    ];
  });
  for (const element of by("alerts-list").querySelectorAll("[data-at]")) {
    element.textContent = `${time(Math.max(0, now - Number(element.dataset.at)))} ago`;
  }
}

function showDeadlocks(deadlocks) {
  by("deadlocks").hidden = deadlocks.length === 0;
  list(by("deadlocks-list"), deadlocks, (text) => text, (text) => [make("span", { class: "grow" }, text)]);
}

function showProfiles(profiles) {
  by("profiles").hidden = profiles.length === 0;
  by("capture").disabled = profiles.some((profile) => profile.state === "writing");
  list(by("profiles-list"), profiles, (profile) => `${profile.number} ${profile.state}`, (profile) => {
    const title = make("span", {}, make("strong", {}, profile.what || "everything"));
    if (profile.state === "writing") return [title, make("span", { class: "count" }, "being written…")];
    if (profile.state === "failed") return [title, make("span", { class: "bad" }, profile.error ?? "failed")];
    const path = `profiles/${encodeURIComponent(profile.name)}`;
    // This path has its own secret, so that the viewer does not learn the page's.
    const shared = new URL(profile.link, location.href).href;
    const viewer = `https://profiler.firefox.com/from-url/${encodeURIComponent(shared)}/`;
    return [
      title,
      make("a", { href: viewer, target: "_blank", rel: "noreferrer noopener" }, "open in the Firefox Profiler"),
      make("a", { href: path, download: profile.name }, `save (${bytes(profile.bytes)})`),
      make("code", {}, `profiler view ${profile.path}`),
    ];
  });
}

/** Fills a list, keeping the elements whose key stays. */
function list(element, items, keyOf, children) {
  const old = new Map([...element.children].map((item) => [item.dataset.key, item]));
  items.forEach((item, index) => {
    const key = keyOf(item);
    const li = old.get(key) ?? make("li", { "data-key": key }, ...children(item));
    old.delete(key);
    if (element.children[index] !== li) element.insertBefore(li, element.children[index] ?? null);
  });
  old.forEach((item) => item.remove());
}

const MARKERS = 200;
const LETTERS = 2000;
function showMarkers({ number, rows, left_out, running, running_left_out, dropped, missed }) {
  if (number < lastMarker) [shownMarkers, leftOut] = [[], 0]; // the numbers started again
  lastMarker = number;
  leftOut += left_out;
  shownMarkers = [...rows.map(brief), ...shownMarkers].slice(0, MARKERS);
  const all = [...running.map((row) => ({ ...brief(row), number: `running ${row.span}` })), ...shownMarkers];
  fill(by("marker-table").tBodies[0], all.map((row) => ({
    key: String(row.number),
    cells: [
      { text: `${(row.start / 1e9).toFixed(3)} s` },
      { className: "text name", title: `${row.category}: ${row.name}`, text: row.name },
      { text: took(row) },
      { className: "text", text: `${row.process_name} ${row.process}` },
      { className: "text", text: row.thread_name || String(row.thread) },
      { className: "text name", title: row.said, text: row.said },
    ],
  })));
  const notes = [`The latest ${shownMarkers.length}.`];
  if (dropped + leftOut) notes.push(`${whole(dropped + leftOut)} were too many, or too large, to be shown.`);
  if (running_left_out) notes.push(`${whole(running_left_out)} more are running.`);
  if (missed) notes.push(`${whole(missed)} were evicted before they could be read.`);
  by("markers-note").textContent = notes.join(" ");
}

function took(row) {
  if (row.shape === "instant") return "";
  return row.end === null ? (row.unfinished ? "unfinished" : "running") : time(row.end - row.start);
}

/** The part of a marker that is kept: its details may be very long. */
function brief({ number, span, start, end, shape, unfinished, name, category, process, process_name, thread, thread_name, ...row }) {
  const said = details(row).slice(0, LETTERS);
  return { number, span, start, end, shape, unfinished, name, category, process, process_name, thread, thread_name, said };
}

function details(row) {
  const fields = row.fields.map((field) => `${field.key}: ${Array.isArray(field.value) ? field.value.join(", ") : field.value}`);
  return [...fields, ...row.details.map((detail) => `${detail.name}: ${detail.value}`)].join(" · ");
}

/** Marks the sorted column in the table's head. */
function mark(table, attribute, column, order) {
  for (const button of table.tHead.querySelectorAll("button")) {
    const th = button.closest("th");
    if (button.dataset[attribute] === column) th.setAttribute("aria-sort", order === "asc" ? "ascending" : "descending");
    else th.removeAttribute("aria-sort");
  }
}

// ---- controls ----

function sortable(table, attribute, column, order, texts) {
  table.tHead.addEventListener("click", (event) => {
    const chosen = event.target.closest("button")?.dataset[attribute];
    if (!chosen) return;
    const first = texts.includes(chosen) ? "asc" : "desc";
    want[order] = want[column] === chosen ? (want[order] === "asc" ? "desc" : "asc") : first;
    want[column] = chosen;
    reorder.add(table.tBodies[0]);
    refresh();
  });
}
sortable(by("groups"), "sort", "sort", "order", ["name", "kind"]);
sortable(by("processes"), "psort", "psort", "porder", ["name", "state", "pid"]);

for (const choice of ["window", "top", "ptop"]) {
  const buttons = document.querySelectorAll(`[data-${choice}]`);
  buttons.forEach((button) => button.addEventListener("click", () => {
    want[choice] = button.dataset[choice];
    buttons.forEach((one) => one.setAttribute("aria-pressed", String(one === button)));
    refresh();
  }));
}
by("kind").addEventListener("change", () => { want.kind = by("kind").value; refresh(); });
by("find").addEventListener("input", () => { want.find = by("find").value; refresh(); });
by("pause").addEventListener("click", () => {
  paused = !paused;
  by("pause").setAttribute("aria-pressed", String(paused));
  by("pause").textContent = paused ? "Go on" : "Pause";
  if (!paused) refresh();
});
by("capture").addEventListener("click", () => capture([["what", "everything until now"]], null));
function otherMarkers() {
  shownMarkers = [];
  lastMarker = 0;
  leftOut = 0;
  refreshMarkers();
}
by("markers").addEventListener("toggle", refreshMarkers);
for (const id of ["marker-name", "marker-process", "marker-min"]) by(id).addEventListener("change", otherMarkers);

const flames = flameGraph({ by, make, ask, time, whole, digits, fill, mark, keepInPlace, isPaused: () => paused });

const waits = waitGraph({ by, ask, time, digits, fill, keepInPlace, isPaused: () => paused });

setInterval(() => {
  if (paused || document.hidden) return;
  refresh();
  refreshMarkers();
  flames.refresh();
  waits.refresh();
}, EVERY_MS);
refresh();
flames.refresh();
