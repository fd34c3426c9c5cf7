/** The evidence: a row for each level, with its target as a staircase and every figure with its interval. */

import { h, uniqueId } from "../dom.js";
import { count, list, percent } from "../format.js";
import { intervalWords, sideOf, trackOf, valueOf, written } from "./interval.js";
import { figuresOf } from "./report-data.js";
import { riskWording, whyNot } from "./wording.js";

/** @typedef {import("./report-data.js").ReportData} ReportData */
/** @typedef {import("./report-data.js").Level} Level */
/** @typedef {import("./interval.js").Column} Column */

/** Colour and letter of each certificate where several are compared. */
export const LOOKS = [
  { letter: "A", role: "blue" },
  { letter: "B", role: "orange" },
  { letter: "C", role: "green" },
  { letter: "D", role: "purple" },
];

/**
 * @param {ReportData[]} reports one, or several to compare
 * @param {(alpha: number) => void} onLevel another level was chosen
 * @returns {{ element: HTMLElement, show: (alpha: number) => void }}
 */
export function evidenceTable(reports, onLevel) {
  const alphas = [...new Set(reports.flatMap(({ levels }) => levels.map(({ alpha }) => alpha)))].sort((a, b) => a - b);
  const columns = columnsOf(reports);
  const name = uniqueId("level");
  /** @type {Map<number, { body: HTMLElement, input: HTMLInputElement }>} */
  const rows = new Map();
  const bodies = alphas.map((alpha, at) => {
    const input = h("input", { type: "radio", name, value: String(alpha), onchange: () => onLevel(alpha) });
    const steps = { from: alphas[at - 1] ?? 0, to: alpha };
    const body = h("tbody", { role: "rowgroup" }, reports.map((report, which) => rowOf(report, which, reports.length, steps, columns, input)));
    rows.set(alpha, { body, input });
    return body;
  });
  const head = ["Target α", reports.length > 1 && "Certificate", ...columns.map(({ title, of }) => [title, h("small", null, of)])].filter(Boolean);
  const element = h(
    "table",
    { class: reports.length > 1 ? "evidence several" : "evidence", role: "table" },
    h("caption", { class: "unseen" }, captionOf(reports)),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, head.map((words) => h("th", { scope: "col", role: "columnheader" }, words)))),
    bodies,
  );
  return {
    element,
    show(alpha) {
      for (const [level, { body, input }] of rows) {
        input.checked = level === alpha;
        body.classList.toggle("shown", level === alpha);
      }
    },
  };
}

/** @param {ReportData[]} reports */
function captionOf(reports) {
  const tested = reports.filter(({ test }) => test);
  const set = tested.length === reports.length ? "test problems" : tested.length ? "test problems, or on calibration problems where there are no others" : "calibration problems";
  return `Each target with the risk, answers and tokens measured on ${set}, with 95% intervals. Choosing a target shows its promise.`;
}

/**
 * @param {ReportData[]} reports
 * @returns {Column[]}
 */
function columnsOf(reports) {
  const levels = reports.flatMap((report) => report.levels);
  const figures = levels.flatMap((level) => [level.test, level.calibration]).filter((one) => one !== null);
  const risk = Math.max(...levels.map(({ alpha }) => alpha), ...figures.map((one) => one.risk_high ?? one.risk ?? 0));
  const samples = new Set(reports.map(({ n }) => n));
  const tokens = Math.max(1, ...figures.map((one) => one.tokens_high ?? one.tokens));
  const abstains = figures.some((one) => one.share_answered < 1);
  /** @type {(Column | false)[]} */
  const columns = [
    { name: "risk", title: "Measured risk", of: reports.length > 1 ? "95% interval" : riskWording(reports[0]?.risk ?? "").measured, top: Math.min(1, 1.06 * risk) },
    abstains && { name: "share_answered", title: "Answered", of: "of all questions", top: 1 },
    { name: "share_right", title: "Answered right", of: "of all questions", top: 1 },
    samples.size > 1
      ? { name: "tokens", title: "Tokens", of: "per question", top: 1.02 * tokens }
      : { name: "tokens_share", title: "Tokens", of: "of the full budget", top: 1 },
  ];
  return columns.filter((one) => one !== false);
}

/**
 * @param {ReportData} report
 * @param {number} which of several
 * @param {number} all
 * @param {{ from: number, to: number }} steps the target of the row above, and of this one
 * @param {Column[]} columns
 * @param {HTMLInputElement} input chooses the level
 */
function rowOf(report, which, all, steps, columns, input) {
  const level = report.levels.find(({ alpha }) => alpha === steps.to) ?? null;
  const look = LOOKS[which] ?? { letter: "?", role: "blue" };
  const first = which === 0;
  const span = all > 1 ? { scope: "rowgroup", rowspan: String(all) } : { scope: "row" };
  return h(
    "tr",
    { role: "row" },
    first && h("th", { role: "rowheader", ...span }, h("label", null, input, h("span", null, percent(steps.to)))),
    all > 1 && h("th", { scope: "row", role: "rowheader", class: "letter-cell" }, letterOf(look)),
    cellsOf(level, columns, look.role, first ? steps : { from: 0, to: steps.to }, all > 1),
  );
}

/** @param {{ letter: string, role: string }} look */
export function letterOf({ letter, role }) {
  return h("b", { class: "letter", style: { color: `var(--${role})` } }, letter);
}

/**
 * @param {Level | null} level
 * @param {Column[]} columns
 * @param {string} role
 * @param {{ from: number, to: number }} steps
 * @param {boolean} brief
 */
function cellsOf(level, columns, role, steps, brief) {
  const figures = level?.certified ? figuresOf(level) : null;
  if (!level || !figures) {
    const words = level ? whyNot(level).short : "This certificate does not list this level.";
    return h("td", { role: "cell", class: "none", colspan: String(columns.length) }, brief && !level ? "not a level of it" : `${level ? "✕ " : ""}${words}`);
  }
  return columns.map((column) => {
    const value = valueOf(column, figures);
    const isRisk = column.name === "risk";
    const side = isRisk ? sideOf(level, figures) : null;
    const track = trackOf(column, level, role);
    if (isRisk) track.prepend(...targetOf(column, steps));
    return h(
      "td",
      { role: "cell", class: isRisk ? "figure risk" : "figure", "data-label": column.title },
      h(
        "div",
        { class: "words" },
        h("b", null, value === null ? "–" : written(column, value)),
        " ",
        h("span", { class: "interval" }, value === null ? "no answers" : intervalWords(column, figures)),
        side && !brief ? h("small", { class: `side ${side.kind}` }, h("span", { "aria-hidden": "true" }, side.mark), ` ${side.words}`) : null,
      ),
      track,
    );
  });
}

/**
 * The part of the scale that the target allows, and the edge of it, which joins the row above.
 *
 * @param {Column} column
 * @param {{ from: number, to: number }} steps
 */
function targetOf({ top }, { from, to }) {
  const at = (/** @type {number} */ share) => `${Math.min(100, (100 * share) / top)}%`;
  return [
    h("span", { class: "allowed", style: { width: at(to) } }),
    from > 0 ? h("span", { class: "tread", style: { left: at(from), width: `calc(${at(to)} - ${at(from)})` } }) : h("span"),
  ];
}

/**
 * @param {ReportData[]} reports
 * @returns {HTMLElement} what the marks mean
 */
export function evidenceLegend(reports) {
  const mark = (/** @type {string} */ kind) => h("span", { class: `key ${kind}`, "aria-hidden": "true" });
  const [report] = reports;
  const tests = reports.filter((one) => one.test);
  const without = reports.flatMap((one, at) => (one.test ? [] : [LOOKS[at]?.letter ?? "?"]));
  const which = tests.length && without.length ? `; of ${list(without)} there are no others` : "";
  const several = reports.length > 1;
  const tested = several ? "test problems" : count(report?.test?.n_problems ?? 0, "test problem");
  const calibrated = several ? "calibration problems" : count(report?.calibration.n_problems ?? 0, "calibration problem");
  return h(
    "ul",
    { class: "chart-legend" },
    tests.length > 0 && h("li", null, mark("front"), `${tested}, unseen by the calibration, with 95% interval`),
    h("li", null, mark("behind"), `${calibrated}: a little optimistic, because the rule was chosen on them${which}`),
    h("li", null, mark("limit"), "target"),
  );
}
