/** Many samples: all their curves in one plot, a button for each, and the text of the one that is chosen. */

import { h, replace, setText } from "../dom.js";
import { EXITS } from "../exits.js";
import { confidence, count, number, tokens } from "../format.js";
import { answerText, mathIn } from "../math.js";
import { drawBands, drawMarks } from "../overlay.js";
import { plot } from "../plot.js";
import { colour } from "../theme.js";
import { drawLabels, exitPoint, linesOf, TOP, zones } from "./curve.js";
import { gutterOf } from "./gutter.js";
import { reachOf, ticksUpTo } from "./reach.js";
import { readingDecimals } from "./rule.js";

/**
 * @typedef {import("./run.js").Sample} Sample
 * @typedef {import("./curve.js").Terms} Terms
 *
 * @typedef {object} Crowd
 * @property {HTMLElement} element
 * @property {(index: number) => void} update the button of a sample, and its text if it is chosen
 * @property {() => void} draw the plot
 * @property {() => void} freeze nothing more will come
 * @property {() => void} destroy
 */

const HEIGHT = 320;
/** Characters of a text that is still growing. */
const TAIL = 1400;

/**
 * @param {Sample[]} samples
 * @param {Terms} terms
 * @param {() => void} wake asks for the plot to be drawn
 * @returns {Crowd}
 */
export function crowd(samples, { policy, budget, usual }, wake) {
  const decimals = readingDecimals(policy);
  let chosen = 0;
  /** Whether the chosen one was asked for after its end: only then is its text typeset, which takes its time. */
  let typeset = false;
  let over = false;
  const canvas = h("div", { class: "crowd-plot", role: "img", "aria-label": "No reading yet" });
  const title = h("h3");
  const words = h("div", { class: "lane-words", "data-empty": "reading the question" });
  const prose = h("div", { class: "crowd-text", tabindex: 0, role: "region", "aria-label": "Text of the chosen sample" }, words);
  const buttons = samples.map(({ index }) =>
    h("button", { type: "button", class: "crowd-one", "aria-pressed": "false", onclick: () => choose(index) }),
  );
  const list = h("div", { class: "crowd-list", role: "group", "aria-label": "The samples" }, buttons);
  const element = h("article", { class: "lane crowd", "aria-label": "All samples" }, canvas, list, title, prose);

  const reach = () => reachOf(Math.max(0, ...samples.map((one) => one.exit?.tokens ?? one.tokens)), usual, budget);
  const x = {
    min: 0,
    max: reach(),
    label: "tokens of thinking",
    ticks: () => ticksUpTo(x.max, 5),
    format: (/** @type {number} */ value) => number(value),
  };
  /** @type {ReturnType<typeof plot> | null} */
  let made = null;

  function make() {
    return plot(canvas, {
      x,
      y: { min: 0, max: TOP, label: "confidence", ticks: [0, 0.5, 1], format: String },
      height: HEIGHT,
      padding: [12, gutterOf(policy), 0, 0],
      series: [{ show: false }],
      data: [[0], [0]],
      hooks: {
        drawClear: [(/** @type {any} */ u) => drawBands(u, zones(policy))],
        draw: [
          (/** @type {any} */ u) => {
            for (const one of samples) if (one.index !== chosen) drawCurve(u, one, "edge", 1);
            const mine = samples[chosen];
            if (mine) drawCurve(u, mine, "ink", 2.5);
            drawMarks(u, linesOf(policy, usual));
            drawMarks(u, samples.flatMap(exitPoint));
            drawLabels(u, policy);
          },
        ],
      },
    });
  }

  /** @param {number} index */
  function choose(index) {
    const before = chosen;
    chosen = index;
    typeset = over || Boolean(samples[index]?.exit);
    update(before);
    update(index);
    wake();
  }

  /** @param {number} index */
  function update(index) {
    const sample = samples[index];
    const button = buttons[index];
    if (!sample || !button) return;
    const exit = sample.exit && EXITS[sample.exit.exit];
    const said = sample.end?.answer ?? null;
    const last = sample.readings.at(-1);
    const mark = exit ? exit.mark : over ? "✕" : "";
    const shown = said ?? (last === undefined ? "…" : confidence(last, 2));
    if (button.dataset.shown !== mark + shown) {
      button.dataset.shown = mark + shown;
      button.dataset.exit = sample.exit?.exit ?? "none";
      replace(
        button,
        h("span", { class: "unseen" }, "Sample "),
        h("small", null, `${index + 1}`),
        h("span", { class: "crowd-mark", "aria-hidden": "true" }, mark),
        h("b", null, said === null ? shown : answerText(said)),
        exit && h("span", { class: "unseen" }, `, ${exit.word}`),
      );
    }
    button.setAttribute("aria-pressed", String(index === chosen));
    if (index !== chosen) return;
    setText(title, about(sample));
    const text = `${sample.text}${sample.answerText && `\n${sample.answerText}`}`.replace(/\n\s*\n/g, "\n").trimStart();
    if (typeset) replace(words, mathIn(text));
    else setText(words, text.length > TAIL && !sample.exit && !over ? `… ${text.slice(-TAIL)}` : text);
    if (!sample.exit) prose.scrollTop = prose.scrollHeight;
  }

  /** @param {Sample} sample */
  function about({ index, exit, end, readings, tokens: spent }) {
    const last = readings.at(-1);
    const read = last === undefined ? "" : `, confidence ${confidence(last, decimals)}`;
    const state = exit ? EXITS[exit.exit].word : over ? "cut off" : "thinking";
    const answer = end?.answer ? `, says ${end.answer}` : "";
    return `Sample ${index + 1}: ${state} after ${tokens(exit?.tokens ?? spent)}${read}${answer}`;
  }

  for (const { index } of samples) update(index);
  return {
    element,
    update,
    draw() {
      x.max = reach();
      made ??= make();
      made.u.batch(() => made?.u.setData([[0], [0]]));
      const ended = samples.filter((one) => one.exit).length;
      canvas.setAttribute("aria-label", `Confidence of ${count(samples.length, "sample")} by tokens; ${ended} have ended. The buttons below name each.`);
    },
    freeze() {
      over = true;
      for (const { index } of samples) update(index);
    },
    destroy: () => made?.destroy(),
  };
}

/**
 * @param {any} u uPlot
 * @param {Sample} sample
 * @param {string} role
 * @param {number} width CSS pixels
 */
function drawCurve(u, { at, readings }, role, width) {
  const { ctx } = u;
  ctx.save();
  ctx.strokeStyle = colour(role);
  ctx.lineWidth = width * devicePixelRatio;
  ctx.beginPath();
  let joined = false;
  at.forEach((tokens, i) => {
    const reading = readings[i] ?? NaN;
    const isRead = Number.isFinite(reading);
    if (isRead) ctx[joined ? "lineTo" : "moveTo"](u.valToPos(tokens, "x", true), u.valToPos(reading, "y", true));
    joined = isRead;
  });
  ctx.stroke();
  ctx.restore();
}
