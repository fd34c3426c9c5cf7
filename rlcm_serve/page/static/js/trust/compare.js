/** Several certificates against each other: a table, and their tokens in one chart. */

import { h } from "../dom.js";
import { number, percent } from "../format.js";
import { figuresOf } from "./exhibit.js";
import { comparedTokens } from "./token-chart.js";
import { riskWords, samplesWords } from "./words.js";

/** @typedef {import("./exhibit.js").Exhibit} Exhibit */
/** @typedef {import("./exhibit.js").Figures} Figures */

/**
 * @param {Exhibit[]} exhibits two or more
 * @returns {{ element: HTMLElement, draw: () => void, destroy: () => void }} `draw` once it is on the page
 */
export function comparison(exhibits) {
  const root = h("div");
  const element = h(
    "section",
    { class: "comparison" },
    h("h2", null, "Side by side"),
    h("p", { class: "term" }, "Each guarantee holds for its certificate alone: choose one before you look at results."),
    h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Certificates side by side" }, tableOf(exhibits)),
    h("h3", null, "Tokens per question"),
    root,
  );
  /** @type {import("../charts.js").Chart | null} */
  let drawn = null;
  return {
    element,
    draw() {
      drawn = comparedTokens(root, exhibits);
    },
    destroy() {
      drawn?.destroy();
      element.remove();
    },
  };
}

/** @param {Exhibit[]} exhibits */
function tableOf(exhibits) {
  const alphas = [...new Set(exhibits.flatMap(({ levels }) => levels.map(({ alpha }) => alpha)))].sort((a, b) => a - b);
  return h(
    "table",
    { class: "compared" },
    h(
      "thead",
      null,
      h("tr", null, h("th", { scope: "col" }, "Certificate"), exhibits.map((one) => h("th", { scope: "col" }, h("code", null, one.id)))),
    ),
    h(
      "tbody",
      null,
      row("What α counts", exhibits.map(({ risk }) => riskWords(risk).counts)),
      row("Samples", exhibits.map(samplesWords)),
      row("Failure probability δ", exhibits.map(({ delta }) => percent(delta))),
      row("Calibrated on", exhibits.map(({ calibration }) => `${number(calibration.n_problems)} problems`)),
      row("Accuracy at the full budget", exhibits.map(fullRight)),
      row("Figures below are measured on", exhibits.map(origin)),
      row("Active", exhibits.map(({ active, fits }) => (active ? "● yes" : fits === false ? "✕ no, for another engine" : "○ no"))),
    ),
    alphas.map((alpha) => levelRows(exhibits, alpha)),
  );
}

/** @param {Exhibit} exhibit */
function fullRight({ test, calibration }) {
  const { full_right: share } = test ?? calibration;
  return Number.isFinite(share) ? percent(share) : "not known";
}

/** @param {Exhibit} exhibit */
function origin({ test, calibration }) {
  return test ? `${number(test.n_problems)} test problems` : `${number(calibration.n_problems)} calibration problems (slightly optimistic)`;
}

/**
 * @param {Exhibit[]} exhibits
 * @param {number} alpha
 */
function levelRows(exhibits, alpha) {
  const levels = exhibits.map(({ levels }) => levels.find((level) => level.alpha === alpha) ?? null);
  /** @param {(figures: Figures) => string} words */
  const cells = (words) =>
    levels.map((level) => {
      const figures = level?.certified ? figuresOf(level) : null;
      return figures ? words(figures) : level ? "✕ not certified" : "not tested";
    });
  return h(
    "tbody",
    null,
    h("tr", { class: "group" }, h("th", { scope: "rowgroup", colspan: String(exhibits.length + 1) }, `At α = ${percent(alpha)}`)),
    row("Realised risk", cells(({ risk }) => (risk === null ? "no answers" : percent(risk)))),
    row("Questions answered", cells((figures) => percent(figures.share_answered))),
    row("Answered right", cells((figures) => percent(figures.share_right))),
    row("Tokens per question", cells((figures) => `${number(figures.tokens)} (${percent(figures.tokens_share, 0)} of the full budget)`)),
  );
}

/**
 * @param {string} name
 * @param {string[]} cells
 */
function row(name, cells) {
  return h("tr", null, h("th", { scope: "row" }, name), cells.map((text) => h("td", null, text)));
}
