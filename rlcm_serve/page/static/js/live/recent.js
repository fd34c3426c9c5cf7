/** The latest answers, as the service stored them: what they took, and how each came to its end. */

import { chart } from "../charts.js";
import { Problem } from "../api.js";
import { h, replace } from "../dom.js";
import { confidence, duration, measured, number, percent, sentence } from "../format.js";
import { timeOf } from "../operate/job-log.js";
import { labelOf } from "./figures.js";

/**
 * @typedef {{ id: string, asked: string, time: string, certificate: string | null, alpha: number | null,
 *   outcome: "answered" | "abstained", confidence: number, tokens: number, familiarity: number | null,
 *   audit: boolean, due: string, label: "right" | "wrong" | null, record: string | null }} Answer one of `GET /answers`
 */

export const LISTED = 200;
const SHOWN = 15;
const FEWEST = 20;

/**
 * @typedef {object} Trace of one answer, which stays when the list is renewed
 * @property {HTMLElement} element
 * @property {(answer: Answer) => Promise<void>} show
 */

/**
 * @param {Answer[]} answers the newest first
 * @param {Trace} trace
 * @returns {HTMLElement[]}
 */
export function recentAnswers(answers, trace) {
  if (!answers.length) return [h("p", { class: "muted" }, "No answer is stored yet.")];
  return [compared(answers), h("h3", null, `The latest ${Math.min(SHOWN, answers.length)} answers`), listOf(answers.slice(0, SHOWN), trace)];
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

/** @param {Answer[]} answers @param {Trace} trace */
function listOf(answers, trace) {
  const head = ["Time", "Outcome", "Guarantee", "Confidence", "Tokens", "Duration", "Label", "Trace"];
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
        h("tbody", null, answers.map((one) => answerRow(one, () => trace.show(one)))),
      ),
    ),
    trace.element,
  );
}

/** @param {Answer} answer @param {() => void} open */
function answerRow(answer, open) {
  const { time, outcome, alpha, confidence: read, tokens, record } = answer;
  const at = timeOf(time);
  const button = record === null ? "–" : h("button", { type: "button", class: "quiet", onclick: open, "aria-label": `Show the trace of the answer at ${at}` }, "Show");
  const cells = [outcome === "answered" ? "✓ answered" : "– abstained", alpha === null ? "none" : `at most ${percent(alpha)}`, confidence(read), number(tokens), duration(seconds(answer)), labelOf(answer), button];
  return h("tr", null, h("th", { scope: "row" }, h("time", { datetime: time }, at)), cells.map((child) => h("td", null, child)));
}

/**
 * @param {import("../api.js").Api} api
 * @returns {Trace}
 */
export function traceOf(api) {
  const element = h("div", { class: "trace", role: "status" });
  /** @type {import("../charts.js").Chart | undefined} */
  let drawn;
  /** @type {Answer | undefined} */
  let wanted;
  return {
    element,
    async show(answer) {
      wanted = answer;
      const found = await seriesOf(answer, api);
      if (wanted !== answer) return; // another was asked for meanwhile
      drawn?.destroy();
      drawn = undefined;
      if (typeof found === "string") return replace(element, h("p", { class: "notice bad" }, found));
      const title = `Confidence of the answer at ${timeOf(answer.time)}, reading by reading`;
      replace(element, h("h4", null, title));
      if (!found.some(({ x }) => x.length)) return element.append(h("p", { class: "muted" }, "It ended before its first reading."));
      const axes = { x: { label: "tokens thought", min: 0 }, y: { label: "confidence", min: 0, max: 1, ticks: [0, 0.25, 0.5, 0.75, 1] } };
      drawn = chart(element, { label: title, height: 200, series: found, axes });
    },
  };
}

/**
 * @param {Answer} answer
 * @param {import("../api.js").Api} api
 * @returns {Promise<import("../charts.js").Series[] | string>} a line per sample, or why there is none
 */
async function seriesOf({ record }, api) {
  try {
    const { samples } = await api.get((record ?? "").replace(/^\//, ""));
    return samples.map((/** @type {any} */ sample, /** @type {number} */ at) => ({
      label: samples.length > 1 ? `sample ${at + 1}` : "confidence",
      x: sample.readings.map((/** @type {[number, number | null]} */ [tokens]) => tokens),
      y: sample.readings.map((/** @type {[number, number | null]} */ [, read]) => read),
      kind: "steps",
      role: ["blue", "orange", "green", "purple", "teal", "rose", "gold", "brown"][at % 8],
      format: (/** @type {number} */ value) => confidence(value),
    }));
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    return `The trace could not be loaded. ${sentence(error.detail)}`;
  }
}
