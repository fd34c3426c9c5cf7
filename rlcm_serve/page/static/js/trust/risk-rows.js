/** Target against realised risk: a row for each level, with its interval. */

import { h } from "../dom.js";
import { count, percent } from "../format.js";
import { riskWording } from "./wording.js";

/** @typedef {import("./report-data.js").ReportData} ReportData */
/** @typedef {import("./report-data.js").Level} Level */
/** @typedef {import("./report-data.js").Figures} Figures */

/**
 * @param {ReportData} report
 * @param {Level | null} shown its row is marked
 * @returns {HTMLElement}
 */
export function riskRows(report, shown) {
  const top = topOf(report);
  const rows = report.levels.map((level) => rowOf(level, top, level === shown));
  return h("div", { class: "risk-rows" }, rows, legendOf(report));
}

/**
 * @param {ReportData} report
 * @returns {number} the risk at the right end of every row
 */
function topOf({ levels }) {
  const ends = levels.flatMap((level) => [
    level.alpha,
    ...[level.test, level.calibration].map((figures) => figures?.risk_high ?? figures?.risk ?? 0),
  ]);
  return Math.min(1, 1.12 * Math.max(...ends));
}

/**
 * @param {Level} level
 * @param {number} top
 * @param {boolean} shown
 */
function rowOf(level, top, shown) {
  const at = (/** @type {number} */ share) => `${Math.min(100, (100 * share) / top)}%`;
  const sets = [
    { figures: level.test, name: "test problems", kind: "honest" },
    { figures: level.calibration, name: "calibration problems", kind: "optimistic" },
  ].filter((set) => set.figures !== null);
  const track = h(
    "div",
    { class: "risk-track", "aria-hidden": "true" },
    h("div", { class: level.certified ? "risk-allowed" : "risk-allowed none", style: { width: at(level.alpha) } }),
    h("div", { class: "risk-target", style: { left: at(level.alpha) } }),
    sets.map(({ figures, kind }) => [intervalOf(figures, kind, at), dotOf(figures, kind, at)]).flat(),
  );
  const words = level.certified
    ? sets.map(({ figures, name }) => h("li", null, realised(level, figures, name)))
    : [h("li", null, level.reason ?? "not certified")];
  return h(
    "div",
    { class: shown ? "risk-row shown" : "risk-row" },
    h("h4", null, `Target α = ${percent(level.alpha)}`, level.certified ? null : h("span", { class: "tag" }, "✕ not certified")),
    track,
    h("ul", { class: "risk-words" }, words),
  );
}

/**
 * @param {Figures | null} figures
 * @param {string} kind
 * @param {(share: number) => string} at
 */
function intervalOf(figures, kind, at) {
  if (!figures || figures.risk_low === null || figures.risk_high === null) return null;
  const width = `calc(${at(figures.risk_high)} - ${at(figures.risk_low)})`;
  return h("div", { class: `risk-interval ${kind}`, style: { left: at(figures.risk_low), width } });
}

/**
 * @param {Figures | null} figures
 * @param {string} kind
 * @param {(share: number) => string} at
 */
function dotOf(figures, kind, at) {
  if (!figures || figures.risk === null) return null;
  return h("div", { class: `risk-dot ${kind}`, style: { left: at(figures.risk) } });
}

/**
 * @param {Level} level
 * @param {Figures | null} figures
 * @param {string} name
 */
function realised(level, figures, name) {
  if (!figures || figures.risk === null) return `no question answered on the ${name}`;
  const { risk, risk_low: low, risk_high: high } = figures;
  const interval = low === null || high === null ? "" : ` (${percent(0.95)} interval ${percent(low)} to ${percent(high)})`;
  return [h("b", null, percent(risk)), ` on the ${name}: ${sideOf(figures, level.alpha)}${interval}`];
}

/**
 * @param {Figures} figures with a risk
 * @param {number} alpha
 */
function sideOf({ risk, risk_low: low, risk_high: high }, alpha) {
  if ((high ?? risk ?? 0) <= alpha) return "below the target";
  if ((low ?? risk ?? 0) > alpha) return "above the target";
  return "not clearly above or below the target";
}

/** @param {ReportData} report */
function legendOf(report) {
  const { calibration, test } = report;
  const mark = (/** @type {string} */ kind) => h("span", { class: `risk-key ${kind}`, "aria-hidden": "true" });
  return h(
    "ul",
    { class: "chart-legend" },
    test && h("li", null, mark("honest"), `on ${count(test.n_problems, "test problem")}, not used in the calibration`),
    h("li", null, mark("optimistic"), `on ${count(calibration.n_problems, "calibration problem")}, also used to choose the policies, so slightly optimistic`),
    h("li", null, mark("target"), `target: at most α ${riskWording(report.risk).promise}`),
  );
}
