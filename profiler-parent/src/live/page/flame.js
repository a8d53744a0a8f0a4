// The flame graph of the live page: requests flame.json once a second while the section is open,
// and draws it on a canvas.
//
// Used by live.js. Draws the graph without a library: a library for flame graphs would bring its
// own styles, which the page's content security policy forbids, and draws one element per function,
// which is too slow for thousands of functions that change every second. A canvas cannot be read by
// a screen reader, so the same functions are in a table below it; the canvas itself can be used
// with the arrow keys.
//
// Names come from the observed programs, so they are never inserted as HTML.

const ROW = 18;
const LETTER = 6.6;
const PALETTE = 8;
/** Browsers draw nothing on a canvas that is higher than about twice this number of pixels. */
const HIGHEST = 16000;

/**
 * Starts the flame graph. `tools` are functions of the page: `by`, `make`, `ask`, `time`, `whole`,
 * `digits`, `fill`, `mark`, `keepInPlace`, `isPaused`. Returns `refresh`, `choose` (shows a process or
 * a group) and `isOpen`.
 */
export function flameGraph({ by, make, ask, time, whole, digits, fill, mark, keepInPlace, isPaused }) {
  const want = {
    window: "10s", time: "on-cpu", process: "", thread: "", group: "", inverted: "", compare: "",
    find: "", path: "", sort: "self", order: "desc", rows: "30",
  };
  const canvas = by("flame-canvas");
  const context = canvas.getContext("2d");
  let latest = null;
  let boxes = [];
  let pointed = null;
  let pointer = null;
  let focused = 0;
  /** The largest number of rows since the selection changed: the page must not move meanwhile. */
  let rows = 3;
  /** Levels below the canvas. */
  let deeper = 0;
  let selection = "";
  let colours = "function";
  let asking = false;
  let askAgain = false;
  /** The state that was announced last. */
  let told = "";

  const isOpen = () => by("flame").open;

  async function refresh() {
    if (!isOpen()) return;
    if (asking) { askAgain = true; return; }
    asking = true;
    try {
      const pairs = Object.entries(want).filter(([, value]) => value !== "");
      const answer = await ask("flame.json", pairs);
      keepInPlace(() => show(answer));
      // The first answer comes before the pools are read.
      if (isReading(latest) && latest.trouble.length === 0) setTimeout(readOn, 100);
    } catch (error) {
      by("flame-note").textContent = `No flame graph: ${error.message}.`;
      tell("There is no flame graph.");
    }
    asking = false;
    if (askAgain) { askAgain = false; refresh(); }
  }

  /** Whether the samples that were recorded before the first request are still being read. */
  const isReading = (answer) => answer.passes === 0 || answer.is_behind;

  /** Asks again while recorded samples are being read, unless the page is paused or hidden. */
  function readOn() {
    if (!isPaused() && !document.hidden) refresh();
  }

  /** Announces a change of the state of the flame graph to a screen reader, once per change. */
  function tell(state) {
    if (told === state) return;
    told = state;
    say(state);
  }

  /** Announces a text to a screen reader. */
  function say(text) {
    by("flame-status").textContent = text;
  }

  // ---- what the answer says ----

  function show(answer) {
    const kept = latest && boxes[focused] ? pathOf(boxes[focused]) : "";
    latest = answer;
    canvas.dataset.passes = answer.passes;
    const length = answer.range.to_ns - answer.range.from_ns;
    const cores = length > 0 && answer.is_window_read ? ` (${digits(answer.on_cpu_ns / length)} cores)` : "";
    by("flame-count").textContent =
      `${time(answer.on_cpu_ns)} on CPU${cores}, ${time(answer.off_cpu_ns)} off CPU in ${time(length)}`;
    showChoices(by("flame-process"), answer.processes.map((one) => [one.key, `${one.name} (${one.pid})`]), want.process);
    showChoices(by("flame-thread"), answer.threads.map((one) => [String(one.tid), `${one.name} (${one.tid})`]), want.thread);
    by("flame-thread").disabled = want.process === "";
    by("flame-compare").disabled = want.window === "start" || want.group !== "";
    showLegend();
    showPath();
    showTable(answer);
    lay();
    showNotes();
    tell(stateOf(answer));
    focused = Math.max(0, boxes.indexOf(boxOf(kept)));
    pointed = pointer ? boxAt(pointer) : null;
    if (pointed || document.activeElement === canvas) by("flame-about").textContent = describe(pointed ?? boxes[focused]);
    draw();
  }

  function showNotes() {
    const found = notes(latest);
    if (deeper > 0) found.push(`${whole(deeper)} deeper levels: click a function to zoom.`);
    by("flame-note").textContent = found.join(" ");
  }

  /** The state in a few words without numbers, which change all the time. */
  function stateOf(answer) {
    if (answer.trouble.length > 0) return `${answer.trouble.join("; ")}.`;
    if (isReading(answer)) return "The recorded samples are being read.";
    if (answer.is_path_empty) return "The function that is zoomed to has no time.";
    return answer.total_ns > 0 ? "The flame graph is shown." : "The flame graph has no time in this selection.";
  }

  function notes(answer) {
    const { missing } = answer;
    const found = answer.trouble.map((text) => `${text[0].toUpperCase()}${text.slice(1)}.`);
    if (found.length > 0 && answer.total_ns === 0) return found;
    if (isReading(answer)) {
      found.push(answer.is_window_read
        ? "Older samples are still being read: the time of waits that began earlier may be missing."
        : "The recorded samples are still being read, the newest first.");
    } else if (answer.total_ns === 0) found.push(answer.samples === 0 ? "No samples are recorded." : "No time in this selection.");
    if (answer.is_path_empty) found.push("The function that is zoomed to has no time in this window.");
    if (want.find !== "" && answer.total_ns > 0) found.push(`Found: ${percent(answer.found_ns, answer.total_ns)} of the time.`);
    if (answer.runs) {
      found.push(`The samples that the group's processes took, in all threads, during its ${answer.runs.count} longest runs of the last seconds (${time(answer.runs.total_ns)}): pools do not record for which group a thread works.`);
    }
    if (want.compare !== "" && !answer.before) found.push("There is no window before yet.");
    if (answer.unnamed > 0) found.push(`The names of ${whole(answer.unnamed)} addresses are being looked up.`);
    if (want.window === "start" && missing.evicted_before > 0) found.push(`Since the oldest entry that was left: ${whole(missing.evicted_before)} older entries had been evicted.`);
    if (missing.evicted_since > 0) found.push(`${whole(missing.evicted_since)} entries were evicted before they were read.`);
    if (missing.unreadable > 0) found.push(`${whole(missing.unreadable)} processes could not be read.`);
    if (missing.behind > 0) found.push(`${whole(missing.behind)} processes record faster than they are read.`);
    if (missing.left_out_ns > 0) found.push(`${time(missing.left_out_ns)} did not fit.`);
    if (missing.frames > 0) found.push(`${whole(missing.frames)} frames did not fit.`);
    return found;
  }

  /** Fills a selection list, unless the user has it open. */
  function showChoices(select, choices, chosen) {
    if (document.activeElement === select) return;
    const all = [["", "all"], ...choices];
    if (chosen !== "" && !choices.some(([value]) => value === chosen)) all.push([chosen, "(no time in this window)"]);
    const shown = [...select.options].map((option) => `${option.value}\n${option.textContent}`).join("\n");
    if (shown !== all.map((pair) => pair.join("\n")).join("\n")) {
      select.replaceChildren(...all.map(([value, text]) => make("option", { value }, text)));
    }
    select.value = chosen;
  }

  function showLegend() {
    const legend = by("flame-legend");
    const processes = colours === "process" ? latest.processes.filter((one) => want.process === "" || one.key === want.process).slice(0, 12) : [];
    const entries = want.compare !== "" && latest.before
      ? [["more", "more than in the window before"], ["less", "less"]]
      : processes.map((one) => [`p${one.order % PALETTE}`, `${one.name} (${one.pid})`]);
    const key = JSON.stringify(entries);
    if (legend.dataset.key === key) return;
    legend.dataset.key = key;
    legend.replaceChildren(...entries.map(([colour, text]) => make("span", { class: `swatch ${colour}` }, text)));
  }

  function showPath() {
    const path = by("flame-path");
    const key = `${want.path}/${latest.path.map((place) => latest.functions[place]?.name).join("/")}`;
    if (path.dataset.key === key) return;
    path.dataset.key = key;
    path.hidden = want.path === "";
    // Not the parts of want.path: an address in it may have got several names.
    const ids = latest.path.map((place) => latest.functions[place].id);
    const steps = latest.path.map((place, index) => make("button", {
      type: "button", class: "small", onclick: () => zoom(ids.slice(0, index + 1).join(".")),
    }, latest.functions[place].name));
    path.replaceChildren(make("button", { type: "button", class: "small", onclick: () => zoom("") }, "all"), ...steps);
  }

  function percent(part, all) {
    return all > 0 ? `${digits((100 * part) / all)} %` : "–";
  }

  /** The change of the time per time of the window, in percentage points of a core. */
  function change(now, before) {
    const length = (range) => Math.max(1, range.to_ns - range.from_ns);
    return 100 * (now / length(latest.range) - before / length(latest.before));
  }

  function signed(number) {
    return `${number >= 0 ? "+" : "−"}${digits(Math.abs(number))} %`;
  }

  function showTable({ table, functions, total_ns, before }) {
    const most = Math.max(1, ...table.rows.map((row) => row.self_ns));
    const rows = table.rows.map((row) => {
      const { id, name, module, kind } = functions[row.function];
      return {
        key: id,
        cells: [
          { className: "text name", title: name, button: { text: name, className: "plain", label: `Search for ${name}`, press: () => search(name) } },
          { className: "text name", title: module, text: module || (kind === "label" ? "label" : "") },
          { className: row.self_ns ? "share" : "zero", part: (100 * row.self_ns) / most, text: row.self_ns ? time(row.self_ns) : "–" },
          { text: percent(row.self_ns, total_ns) },
          { text: time(row.total_ns) },
          { text: percent(row.total_ns, total_ns) },
          { text: before ? signed(change(row.self_ns, row.before_self_ns)) : "" },
        ],
      };
    });
    fill(by("flame-table").tBodies[0], rows);
    by("flame-table-count").textContent = `${table.rows.length} of ${table.total}`;
    mark(by("flame-table"), "fsort", table.sort, table.order);
  }

  // ---- drawing ----

  /** Computes the boxes: the nodes come in the order of a walk, each before its children. */
  function lay() {
    const { nodes } = latest;
    const width = canvas.clientWidth;
    const ends = [];
    boxes = [];
    let deepest = 0;
    const ratio = devicePixelRatio || 1;
    const most = Math.floor(HIGHEST / ROW / ratio);
    const scale = nodes.total_ns[0] > 0 ? width / nodes.total_ns[0] : 0;
    nodes.depth.forEach((depth, place) => {
      const x = depth === 0 ? 0 : ends[depth - 1];
      const wide = nodes.total_ns[place] * scale;
      ends[depth] = x;
      if (depth > 0) ends[depth - 1] = x + wide;
      if (wide < 0.5) return;
      deepest = Math.max(deepest, depth);
      if (depth >= most) return;
      boxes.push({ place, x, y: depth * ROW, wide, depth });
    });
    const { find, sort, order, ...kept } = want;
    const now = JSON.stringify(kept);
    rows = Math.min(most, Math.max(selection === now ? rows : 3, deepest + 1));
    deeper = Math.max(0, deepest + 1 - most);
    selection = now;
    const high = rows * ROW;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(high * ratio);
    canvas.style.setProperty("--high", `${high}px`);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    canvas.dataset.boxes = boxes.length;
  }

  function nameOf(place) {
    const index = latest.nodes.function[place];
    return index === null ? "all" : latest.functions[index].name;
  }

  /** The colours of the page's style sheet, which depend on light and dark. */
  function scheme() {
    const style = getComputedStyle(canvas);
    const of = (name) => style.getPropertyValue(name).trim();
    return { of, text: of("--flame-text"), edge: of("--panel"), root: of("--line"), found: of("--flame-found"), focus: of("--accent") };
  }

  function hash(text) {
    let value = 2166136261;
    for (let place = 0; place < text.length; place += 1) value = Math.imul(value ^ text.charCodeAt(place), 16777619);
    return value >>> 0;
  }

  function colourOf(place, { of, root }, orders) {
    const { nodes, functions } = latest;
    const index = nodes.function[place];
    if (index === null) return root;
    if (want.compare !== "" && latest.before) {
      const points = change(nodes.total_ns[place], nodes.before_ns[place]);
      const strength = Math.min(4, Math.ceil(Math.abs(points) / 2));
      return strength === 0 ? root : of(`--flame-${points > 0 ? "more" : "less"}-${strength}`);
    }
    if (colours === "process") return of(`--flame-p${(orders.get(nodes.process[place]) ?? nodes.process[place]) % PALETTE}`);
    const { kind, module } = functions[index];
    if (kind === "placeholder") return root;
    if (kind === "label") return of("--flame-label");
    if (kind === "address") return of("--flame-address");
    return of(`--flame-f${hash(module) % 5}`);
  }

  function draw() {
    const colour = scheme();
    const orders = new Map(latest.processes.map((one) => [one.number, one.order]));
    const wanted = want.find.toLowerCase();
    context.clearRect(0, 0, canvas.clientWidth, canvas.height);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (const box of boxes) {
      const name = nameOf(box.place);
      const isFound = wanted !== "" && isMatch(box.place, wanted);
      context.fillStyle = isFound ? colour.found : colourOf(box.place, colour, orders);
      context.fillRect(box.x, box.y, Math.max(0.5, box.wide - 0.5), ROW - 1);
      if (box === pointed || (document.activeElement === canvas && boxes[focused] === box)) {
        context.strokeStyle = colour.focus;
        context.lineWidth = 2;
        context.strokeRect(box.x + 1, box.y + 1, Math.max(1, box.wide - 2), ROW - 3);
      }
      const letters = Math.floor((box.wide - 6) / LETTER);
      if (letters < 3) continue;
      context.fillStyle = isFound ? colour.of("--flame-found-text") : colour.text;
      context.fillText(name.length > letters ? `${name.slice(0, letters - 1)}…` : name, box.x + 3, box.y + ROW / 2);
    }
  }

  function isMatch(place, wanted) {
    const index = latest.nodes.function[place];
    if (index === null) return false;
    const { name, module } = latest.functions[index];
    return name.toLowerCase().includes(wanted) || module.toLowerCase().includes(wanted);
  }

  function describe(box) {
    if (!box) return "";
    const { nodes, functions, processes, before } = latest;
    const index = nodes.function[box.place];
    const module = index === null ? "" : functions[index].module;
    const share = percent(nodes.total_ns[box.place], latest.total_ns);
    const parts = [`${nameOf(box.place)}${module ? ` (${module})` : ""}: ${time(nodes.total_ns[box.place])}, ${share}; self ${time(nodes.self_ns[box.place])}`];
    if (before && index !== null) parts.push(`${signed(change(nodes.total_ns[box.place], nodes.before_ns[box.place]))} of a core to the window before`);
    const process = processes.find((one) => one.number === nodes.process[box.place]);
    if (process && index !== null && want.process === "" && processes.length > 1) {
      parts.push(`${percent(nodes.process_ns[box.place], nodes.total_ns[box.place])} of it in ${process.name} (${process.pid})`);
    }
    return parts.join("; ");
  }

  // ---- what the user does ----

  function zoom(path) {
    want.path = path;
    focused = 0;
    refresh();
  }

  /** The path of a box: the ids of its functions from the root. */
  function pathOf(box) {
    const { nodes, functions, path } = latest;
    const chain = [];
    let depth = box.depth;
    for (let place = box.place; place >= 0 && depth >= 0; place -= 1) {
      if (nodes.depth[place] !== depth) continue;
      const index = nodes.function[place];
      if (index !== null) chain.unshift(functions[index].id);
      depth -= 1;
    }
    return [...path.map((place) => functions[place].id), ...chain].join(".");
  }

  /** The box at a path; undefined if there is none. The boxes below a box follow it. */
  function boxOf(path) {
    const { functions, nodes } = latest;
    const ids = path === "" ? [] : path.split(".").slice(latest.path.length);
    const isZoomed = nodes.function[0] !== null;
    let at = 0;
    for (const id of isZoomed ? ids.slice(1) : ids) {
      const depth = boxes[at]?.depth;
      const isIt = (box) => box.depth === depth + 1 && functions[nodes.function[box.place]].id === id;
      do at += 1; while (boxes[at]?.depth > depth && !isIt(boxes[at]));
      if (!(boxes[at]?.depth > depth)) return undefined;
    }
    return boxes[at];
  }

  function search(text) {
    want.find = text;
    by("flame-find").value = text;
    refresh();
  }

  function boxAt(event) {
    const { left, top } = canvas.getBoundingClientRect();
    const x = event.clientX - left, y = event.clientY - top;
    return boxes.find((box) => x >= box.x && x < box.x + box.wide && y >= box.y && y < box.y + ROW) ?? null;
  }

  function point(box) {
    if (pointed === box) return;
    pointed = box;
    by("flame-about").textContent = describe(box);
    canvas.title = describe(box);
    draw();
  }

  /** Moves the focus with the arrow keys: down to the first child, up to the caller, sideways. */
  function move(key) {
    const now = boxes[focused];
    if (!now) return;
    const isInside = (box) => box.x >= now.x - 0.01 && box.x + box.wide <= now.x + now.wide + 0.01;
    const covers = (box) => box.x <= now.x + 0.01 && box.x + box.wide >= now.x + now.wide - 0.01;
    const row = boxes.filter((box) => box.depth === now.depth);
    const next = {
      ArrowDown: () => boxes.find((box) => box.depth === now.depth + 1 && isInside(box)),
      ArrowUp: () => boxes.find((box) => box.depth === now.depth - 1 && covers(box)),
      ArrowRight: () => row[row.indexOf(now) + 1],
      ArrowLeft: () => row[row.indexOf(now) - 1],
      Home: () => boxes[0],
    }[key]();
    if (next) focused = boxes.indexOf(next);
    by("flame-about").textContent = describe(boxes[focused]);
    say(describe(boxes[focused]));
    draw();
  }

  canvas.addEventListener("mousemove", (event) => {
    pointer = { clientX: event.clientX, clientY: event.clientY };
    point(boxAt(event));
  });
  canvas.addEventListener("mouseleave", () => { pointer = null; point(null); });
  canvas.addEventListener("click", (event) => {
    const box = boxAt(event);
    if (box) zoom(pathOf(box));
  });
  canvas.addEventListener("focus", () => { if (latest) draw(); });
  canvas.addEventListener("blur", () => { if (latest) draw(); });
  canvas.addEventListener("keydown", (event) => {
    if (!latest || event.altKey || event.ctrlKey || event.metaKey) return;
    if (["ArrowDown", "ArrowUp", "ArrowLeft", "ArrowRight", "Home"].includes(event.key)) move(event.key);
    else if (event.key === "Enter" && boxes[focused]) zoom(pathOf(boxes[focused]));
    else if (event.key === "Escape") zoom("");
    else return;
    event.preventDefault();
  });

  for (const choice of ["fwindow", "ftime", "fcolour"]) {
    const buttons = document.querySelectorAll(`[data-${choice}]`);
    buttons.forEach((button) => button.addEventListener("click", () => {
      buttons.forEach((one) => one.setAttribute("aria-pressed", String(one === button)));
      const chosen = button.dataset[choice];
      if (choice === "fcolour") {
        colours = chosen;
        if (latest) { showLegend(); draw(); }
        return;
      }
      want[choice.slice(1)] = chosen;
      refresh();
    }));
  }
  for (const [id, key] of [["flame-invert", "inverted"], ["flame-compare", "compare"]]) {
    by(id).addEventListener("click", () => {
      want[key] = want[key] === "" ? "1" : "";
      if (key === "inverted") want.path = "";
      by(id).setAttribute("aria-pressed", String(want[key] !== ""));
      refresh();
    });
  }
  by("flame-process").addEventListener("change", () => choose({ process: by("flame-process").value }));
  by("flame-thread").addEventListener("change", () => choose({ process: want.process, thread: by("flame-thread").value }));
  by("flame-find").addEventListener("input", () => search(by("flame-find").value));
  by("flame-group").addEventListener("click", () => choose({}));
  by("flame").addEventListener("toggle", refresh);
  by("flame-table").tHead.addEventListener("click", (event) => {
    const chosen = event.target.closest("button")?.dataset.fsort;
    if (!chosen) return;
    const first = chosen === "name" ? "asc" : "desc";
    want.order = want.sort === chosen ? (want.order === "asc" ? "desc" : "asc") : first;
    want.sort = chosen;
    refresh();
  });
  addEventListener("resize", () => { if (latest && isOpen()) { lay(); showNotes(); draw(); } });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (latest) draw(); });

  /** Shows one process, one of its threads, or one group; everything without an argument. */
  function choose({ process = "", thread = "", group = "" }) {
    Object.assign(want, { process, thread, group, path: "" });
    by("flame-group").hidden = group === "";
    by("flame-group").textContent = `group ${group} ×`;
    by("flame").open = true;
    refresh();
  }

  return { refresh, choose, isOpen };
}
