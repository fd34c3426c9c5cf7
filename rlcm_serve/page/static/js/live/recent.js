/** The latest answers, as the service stored them: what they took, and how each came to its end. */

import { chart } from "../charts.js";
import { Problem } from "../api.js";
import { h, replace } from "../dom.js";
import { confidence, duration, measured, number, percent, sentence } from "../format.js";
import { timeOf } from "../operate/job-log.js";

/**
 * @typedef {{ id: string, asked: string, time: string, certificate: string | null, alpha: number | null,
 *   outcome: "answered" | "abstained", confidence: number, tokens: number, familiarity: number | null,
 *   audit: boolean, label: "right" | "wrong" | null, record: string | null }} Answer one of `GET /answers`
 */

export const LISTED = 200;
const SHOWN = 15;
const FEWEST = 20;

/**
 * @param {Answer[]} answers the newest first
 * @param {import("../api.js").Api} api
 * @returns {HTMLElement[]}
 */
export function recentAnswers(answers, api) {
  if (!answers.length) return [h("p", { class: "muted" }, "No answer is stored yet.")];
  return [compared(answers), h("h3", null, `The latest ${Math.min(SHOWN, answers.length)} answers`), listOf(answers.slice(0, SHOWN), api)];
}

/** @param {Answer} answer @returns {number} seconds from the question to the answer */
function seconds({ asked, time }) {
  return Math.max(0, (Date.parse(time) - Date.parse(asked)) / 1000);
}

/**
 * The newer half against the older one.
 *
 * @param {Answer[]} answers
 */
function compared(answers) {
  const half = Math.floor(answers.length / 2);
  if (half < FEWEST) return h("p", { class: "muted" }, `Time, tokens and abstentions are compared once ${2 * FEWEST} answers are stored.`);
  const sets = [answers.slice(0, half), answers.slice(half, 2 * half)];
  const figure = (/** @type {string} */ name, /** @type {(set: Answer[]) => string} */ of) => h("tr", null, h("th", { scope: "row" }, name), sets.map((set) => h("td", null, of(set))));
  const share = (/** @type {Answer[]} */ set, /** @type {(one: Answer) => boolean} */ test) => measured(set.filter(test).length / set.length);
  const oldest = sets[1]?.[half - 1];
  return h(
    "div",
    { class: "scrolls", tabindex: "0", role: "group", "aria-label": "Latest answers against earlier ones" },
    h(
      "table",
      null,
      h("caption", null, `The latest ${number(half)} answers and the ${number(half)} before, since ${oldest ? timeOf(oldest.time) : ""}. Small differences are chance.`),
      h("thead", null, h("tr", null, h("td"), h("th", { scope: "col" }, "Latest"), h("th", { scope: "col" }, "Before"))),
      h(
        "tbody",
        null,
        figure("Time to the answer, median", (set) => duration(quantile(set.map(seconds), 0.5))),
        figure("Time to the answer, 95th percentile", (set) => duration(quantile(set.map(seconds), 0.95))),
        figure("Tokens per question", (set) => number(set.reduce((sum, { tokens }) => sum + tokens, 0) / set.length)),
        figure("Abstained", (set) => share(set, ({ outcome }) => outcome === "abstained")),
        figure("With a guarantee", (set) => share(set, ({ certificate }) => certificate !== null)),
      ),
    ),
  );
}

/** @param {number[]} values @param {number} at */
export function quantile(values, at) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil(at * sorted.length) - 1)] ?? 0;
}

/** @param {Answer[]} answers @param {import("../api.js").Api} api */
function listOf(answers, api) {
  const head = ["Time", "Outcome", "Guarantee", "Confidence", "Tokens", "Duration", "Label", "Trace"];
  const trace = h("div", { class: "trace", role: "status" });
  return h(
    "div",
    null,
    h(
      "div",
      { class: "scrolls", tabindex: "0", role: "group", "aria-label": "The latest answers" },
      h(
        "table",
        null,
        h("thead", null, h("tr", null, head.map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", null, answers.map((one) => answerRow(one, () => showTrace(one, api, trace)))),
      ),
    ),
    trace,
  );
}

/** @param {Answer} answer @param {() => void} open */
function answerRow(answer, open) {
  const { time, outcome, alpha, confidence: read, tokens, audit, label, record } = answer;
  const verdict = label === "right" ? "✓ right" : label === "wrong" ? "✕ wrong" : audit && outcome === "answered" ? "○ awaited" : "–";
  const at = timeOf(time);
  const button = record === null ? "–" : h("button", { type: "button", class: "quiet", onclick: open, "aria-label": `Show the trace of the answer at ${at}` }, "Show");
  const cells = [outcome === "answered" ? "✓ answered" : "– abstained", alpha === null ? "none" : `at most ${percent(alpha)}`, confidence(read), number(tokens), duration(seconds(answer)), verdict, button];
  return h("tr", null, h("th", { scope: "row" }, h("time", { datetime: time }, at)), cells.map((child) => h("td", null, child)));
}

/**
 * @param {Answer} answer
 * @param {import("../api.js").Api} api
 * @param {HTMLElement} root
 */
async function showTrace({ record, time }, api, root) {
  try {
    const { samples } = await api.get((record ?? "").replace(/^\//, ""));
    const title = `Confidence of the answer at ${timeOf(time)}, reading by reading`;
    replace(root, h("h4", null, title));
    const series = samples.map((/** @type {any} */ sample, /** @type {number} */ at) => ({
      label: samples.length > 1 ? `sample ${at + 1}` : "confidence",
      x: sample.readings.map((/** @type {[number, number | null]} */ [tokens]) => tokens),
      y: sample.readings.map((/** @type {[number, number | null]} */ [, read]) => read),
      kind: /** @type {const} */ ("steps"),
      role: ["blue", "orange", "green", "purple", "teal", "rose", "gold", "brown"][at % 8],
      format: (/** @type {number} */ value) => confidence(value),
    }));
    if (series.some((/** @type {{ x: number[] }} */ { x }) => x.length)) chart(root, { label: title, height: 200, series, axes: { x: { label: "tokens thought", min: 0 }, y: { label: "confidence", min: 0, max: 1, ticks: [0, 0.25, 0.5, 0.75, 1] } } });
    else root.append(h("p", { class: "muted" }, "It ended before its first reading."));
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    replace(root, h("p", { class: "notice bad" }, `The trace could not be loaded. ${sentence(error.detail)}`));
  }
}
