// Controls a page in a real browser: Chromium, by its own protocol over a pipe. No package is
// needed.
//
// Used by live.mjs. Nothing is loaded from the network. The browser's files are deleted at the end.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";

const SECONDS = 120;
const ARGUMENTS = [
  "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe",
  "--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--disable-sync", "--hide-scrollbars",
  "--no-default-browser-check", "--no-proxy-server", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
];

export class Browser {
  #process;
  #directory = mkdtempSync("/tmp/live-browser-");
  #next = 1;
  #waiting = new Map();
  #rest = "";
  #session;
  /** Errors that the page has reported. */
  complaints = [];

  /** Starts this browser program with one empty page. */
  static async start(program) {
    const browser = new Browser();
    browser.#begin(program);
    const { targetId } = await browser.#send("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await browser.#send("Target.attachToTarget", { targetId, flatten: true });
    browser.#session = sessionId;
    for (const domain of ["Page", "Runtime", "Log"]) await browser.send(`${domain}.enable`);
    return browser;
  }

  #begin(program) {
    const stdio = ["ignore", "ignore", "ignore", "pipe", "pipe"];
    this.#process = spawn(program, [...ARGUMENTS, `--user-data-dir=${this.#directory}`], { stdio });
    this.#process.on("error", (error) => this.#fail(error));
    this.#process.on("exit", (code) => this.#fail(new Error(`the browser has ended: ${code}`)));
    this.#process.stdio[3].on("error", (error) => this.#fail(error));
    this.#process.stdio[4].setEncoding("utf8").on("data", (text) => this.#hear(text));
  }

  #fail(error) {
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }

  #hear(text) {
    const messages = (this.#rest + text).split("\0");
    this.#rest = messages.pop();
    for (const message of messages.map((one) => JSON.parse(one))) {
      const { id, method, params, result, error } = message;
      if (method === "Runtime.exceptionThrown") this.complaints.push(params.exceptionDetails.exception?.description ?? "exception");
      if (method === "Log.entryAdded" && params.entry.level === "error") this.complaints.push(params.entry.text);
      const waiting = this.#waiting.get(id);
      this.#waiting.delete(id);
      if (waiting && error) waiting.reject(new Error(`${waiting.method}: ${error.message}`));
      else waiting?.resolve(result);
    }
  }

  #send(method, params = {}, sessionId = undefined) {
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`${method}: no answer`)), SECONDS * 1000);
      const settle = (how) => (value) => { clearTimeout(late); how(value); };
      this.#waiting.set(id, { method, resolve: settle(resolve), reject: settle(reject) });
      this.#process.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    });
  }

  /** Sends one command to the page. */
  send(method, params = {}) {
    return this.#send(method, params, this.#session);
  }

  /** Returns the value of an expression in the page. */
  async evaluate(expression) {
    const options = { expression, awaitPromise: true, returnByValue: true };
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", options);
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  /** Waits until an expression holds. */
  async until(expression) {
    for (let tries = 0; tries < SECONDS * 10; tries += 1) {
      if (await this.evaluate(expression)) return;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    throw new Error(`never came true: ${expression}`);
  }

  /** Clicks in the middle of the first element that matches. Clicks again if the page moved the element away. */
  async press(selector) {
    for (let tries = 0; tries < 5; tries += 1) {
      const { x, y } = await this.standing(selector);
      const heard = `document.querySelector(${JSON.stringify(selector)})
        .addEventListener("click", () => { window.heardClick = true; }, { once: true }); window.heardClick = false`;
      await this.evaluate(heard);
      for (const type of ["mousePressed", "mouseReleased"]) {
        await this.send("Input.dispatchMouseEvent", { type, x, y, button: "left", clickCount: 1 });
      }
      if (await this.evaluate("window.heardClick || !document.querySelector(" + JSON.stringify(selector) + ")")) return;
    }
    throw new Error(`no click reaches ${selector}`);
  }

  /** Moves the pointer to the first element that matches until the page no longer moves the element. */
  async standing(selector) {
    let place = await this.middle(selector);
    for (let tries = 0; tries < 20; tries += 1) {
      await this.send("Input.dispatchMouseEvent", { type: "mouseMoved", ...place });
      await new Promise((resolve) => setTimeout(resolve, 50));
      const now = await this.middle(selector);
      if (now.x === place.x && now.y === place.y) break;
      place = now;
    }
    return place;
  }

  /** Moves the pointer to the first element that matches, or with `null` to the corner. */
  async point(selector) {
    const { x, y } = selector ? await this.middle(selector) : { x: 1, y: 1 };
    await this.send("Input.dispatchMouseEvent", { type: "mouseMoved", x, y });
  }

  async middle(selector) {
    return this.evaluate(`(() => {
      const element = document.querySelector(${JSON.stringify(selector)});
      element.scrollIntoView({ block: "center" });
      const { x, y, width, height } = element.getBoundingClientRect();
      return { x: x + width / 2, y: y + height / 2 };
    })()`);
  }

  /** Presses and releases a key. */
  async key(key, code, text = undefined) {
    await this.send("Input.dispatchKeyEvent", { type: "keyDown", key, code: key, windowsVirtualKeyCode: code, text });
    await this.send("Input.dispatchKeyEvent", { type: "keyUp", key, code: key, windowsVirtualKeyCode: code });
  }

  /** Emulates a screen of this size, with light or dark colours. */
  async screen(width, height, scheme) {
    await this.send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: false });
    await this.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: scheme }] });
  }

  /** Returns a picture of the page, as PNG. */
  async picture() {
    const { data } = await this.send("Page.captureScreenshot", { format: "png" });
    return Buffer.from(data, "base64");
  }

  async close() {
    const ended = new Promise((resolve) => this.#process.on("exit", resolve));
    await this.#send("Browser.close").catch(() => this.#process.kill("SIGKILL"));
    const late = setTimeout(() => this.#process.kill("SIGKILL"), 10_000);
    await ended;
    clearTimeout(late);
    rmSync(this.#directory, { recursive: true, force: true, maxRetries: 5 });
  }
}
