/** Several certificates against each other: a table, and their tokens in one chart. */

import { h } from "../dom.js";
import { number, percent } from "../format.js";
import { figuresOf } from "./report-data.js";
import { comparedTokens } from "./token-chart.js";
import { riskWording, samplesWords } from "./wording.js";

/** @typedef {import("./report-data.js").ReportData} ReportData */
/** @typedef {import("./report-data.js").Figures} Figures */

/**
 * @param {ReportData[]} reports two or more
 * @returns {{ element: HTMLElement, draw: () => void, destroy: () => void }} `draw` once it is on the page
 */
export function comparison(reports) {
  const root = h("div");
  const element = h(
    "section",
    { class: "comparison" },
    h("h2", null, "Side by side"),
    h("p", { class: "term" }, "Each guarantee holds for its certificate alone: choose one before you look at results."),
    h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Certificates side by side" }, tableOf(reports)),
    h("h3", null, "Tokens per question"),
    root,
  );
  /** @type {import("../charts.js").Chart | null} */
  let drawn = null;
  return {
    element,
    draw() {
      drawn = comparedTokens(root, reports);
    },
    destroy() {
      drawn?.destroy();
      element.remove();
    },
  };
}

/** @param {ReportData[]} reports */
function tableOf(reports) {
  const alphas = [...new Set(reports.flatMap(({ levels }) => levels.map(({ alpha }) => alpha)))].sort((a, b) => a - b);
  return h(
    "table",
    { class: "compared" },
    h(
      "thead",
      null,
      h("tr", null, h("th", { scope: "col" }, "Certificate"), reports.map((one) => h("th", { scope: "col" }, h("code", null, one.id)))),
    ),
    h(
      "tbody",
      null,
      row("What α counts", reports.map(({ risk }) => riskWording(risk).counts)),
      row("Samples", reports.map(samplesWords)),
      row("Failure probability δ", reports.map(({ delta }) => percent(delta))),
      row("Calibrated on", reports.map(({ calibration }) => `${number(calibration.n_problems)} problems`)),
      row("Accuracy at the full budget", reports.map(fullRight)),
      row("Figures below are measured on", reports.map(origin)),
      row("Active", reports.map(({ active, fits }) => (active ? "● yes" : fits === false ? "✕ no, for another engine" : "○ no"))),
    ),
    alphas.map((alpha) => levelRows(reports, alpha)),
  );
}

/** @param {ReportData} report */
function fullRight({ test, calibration }) {
  const { full_right: share } = test ?? calibration;
  return Number.isFinite(share) ? percent(share) : "not known";
}

/** @param {ReportData} report */
function origin({ test, calibration }) {
  return test ? `${number(test.n_problems)} test problems` : `${number(calibration.n_problems)} calibration problems (slightly optimistic)`;
}

/**
 * @param {ReportData[]} reports
 * @param {number} alpha
 */
function levelRows(reports, alpha) {
  const levels = reports.map(({ levels }) => levels.find((level) => level.alpha === alpha) ?? null);
  /** @param {(figures: Figures) => string} words */
  const cells = (words) =>
    levels.map((level) => {
      const figures = level?.certified ? figuresOf(level) : null;
      return figures ? words(figures) : level ? "✕ not certified" : "not tested";
    });
  return h(
    "tbody",
    null,
    h("tr", { class: "group" }, h("th", { scope: "rowgroup", colspan: String(reports.length + 1) }, `At α = ${percent(alpha)}`)),
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
