// The graph of waits of the live page: requests waits.json once a second while the section is open,
// and draws for whom the threads of each process wait. A table has the same numbers.
//
// Used by live.js. Names come from the observed programs, so they are never inserted as HTML.

const SVG = "http://www.w3.org/2000/svg";
/** The numbers of rows in the graph and in the table. */
const DRAWN = 16;
const LISTED = 100;
const WIDTH = 900;
const LINE = 26;
const LEFT = 300;
const RIGHT = 600;
const THICKEST = 18;

/**
 * Starts the graph of waits. `tools` are functions of the page: `by`, `ask`, `time`, `digits`,
 * `fill`, `keepInPlace`, `isPaused`. Returns `refresh`.
 */
export function waitGraph({ by, ask, time, digits, fill, keepInPlace, isPaused }) {
  let shownWindow = "10s";
  let asking = false;
  let askAgain = false;
  /** The largest height since the window was chosen: the page must not move meanwhile. */
  let highest = 0;

  async function refresh() {
    if (!by("waits").open) return;
    if (asking) { askAgain = true; return; }
    asking = true;
    try {
      const answer = await ask("waits.json", [["window", shownWindow]]);
      keepInPlace(() => show(answer));
      // The first answer comes before the pools are read.
      const isReading = answer.passes === 0 || !answer.is_window_read;
      if (isReading && answer.trouble.length === 0) setTimeout(readOn, 100);
    } catch (error) {
      draw([]);
      by("waits-note").textContent = `No graph of waits: ${error.message}.`;
    }
    asking = false;
    if (askAgain) { askAgain = false; refresh(); }
  }

  /** Asks again while recorded samples are being read, unless the page is paused or hidden. */
  function readOn() {
    if (!isPaused() && !document.hidden) refresh();
  }

  function show(answer) {
    const length = answer.to_ns - answer.from_ns;
    by("waits-count").textContent = `${answer.total} in the last ${time(length)}`;
    draw(answer.rows.slice(0, DRAWN));
    fill(by("waits-table").tBodies[0], answer.rows.slice(0, LISTED).map((row) => ({
      key: `${row.key} ${row.whom} ${row.kind}`,
      cells: [
        { className: "text name", title: row.name, text: `${row.name} (${row.pid})` },
        { className: "text name", title: row.whom, text: row.whom },
        { className: "text", text: row.kind },
        { text: time(row.wait_ns) },
        { text: length > 0 ? digits(row.wait_ns / length) : "" },
      ],
    })));
    const notes = [...answer.trouble];
    if (answer.total === 0) notes.push("No thread waited for another process or thread. This is known only for observed programs.");
    if (answer.total > LISTED) notes.push(`${answer.total - LISTED} more are not shown.`);
    by("waits-note").textContent = notes.join(" ");
  }

  /** Draws waiting processes on the left, and what they wait for on the right. */
  function draw(rows) {
    const waiting = new Map();
    const awaited = new Map();
    const place = (all, key, text) => {
      if (!all.has(key)) all.set(key, { index: all.size, text });
      return all.get(key).index;
    };
    const edges = rows.map((row) => ({
      from: place(waiting, row.key, `${row.name} (${row.pid})`),
      to: place(awaited, row.whom, row.whom),
      row,
    }));
    const most = Math.max(1, ...rows.map((row) => row.wait_ns));
    highest = Math.max(highest, LINE * Math.max(waiting.size, awaited.size) + 8);
    const middle = (index) => LINE * index + LINE / 2 + 4;
    const picture = by("waits-graph");
    picture.setAttribute("viewBox", `0 0 ${WIDTH} ${highest}`);
    picture.replaceChildren(
      ...edges.map(({ from, to, row }) => {
        const [y1, y2] = [middle(from), middle(to)];
        const bend = (LEFT + RIGHT) / 2;
        const line = element("path", {
          class: "wait",
          d: `M ${LEFT} ${y1} C ${bend} ${y1} ${bend} ${y2} ${RIGHT} ${y2}`,
          "stroke-width": Math.max(1, (THICKEST * row.wait_ns) / most),
        });
        line.append(element("title", {}, `${row.name} (${row.pid}) waits for ${row.whom}: ${time(row.wait_ns)} (${row.kind})`));
        return line;
      }),
      ...[...waiting.values()].map((one) => label(one, LEFT - 8, "end", middle)),
      ...[...awaited.values()].map((one) => label(one, RIGHT + 8, "start", middle)),
    );
  }

  function label({ index, text }, x, anchor, middle) {
    const short = text.length > 44 ? `${text.slice(0, 43)}…` : text;
    return element("text", { x, y: middle(index), "text-anchor": anchor, "dominant-baseline": "middle" }, short);
  }

  function element(tag, attributes, text = "") {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
    made.textContent = text;
    return made;
  }

  const buttons = [...document.querySelectorAll("[data-wwindow]")];
  buttons.forEach((button) => button.addEventListener("click", () => {
    shownWindow = button.dataset.wwindow;
    highest = 0;
    buttons.forEach((one) => one.setAttribute("aria-pressed", String(one === button)));
    refresh();
  }));
  by("waits").addEventListener("toggle", refresh);
  return { refresh };
}
