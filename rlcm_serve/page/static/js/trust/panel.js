/** One certificate, whole: promise, figures, map, reliability, coverage, fingerprint. */

import { h, replace } from "../dom.js";
import { number, percent } from "../format.js";
import { levelFor } from "./report-data.js";
import { fingerprintTable } from "./fingerprint.js";
import { guaranteeSection } from "./guarantee.js";
import { pValueMap } from "./pvalue-map.js";
import { inWords, reliabilityDiagram } from "./reliability.js";
import { riskRows } from "./risk-rows.js";
import { tokenChart } from "./token-chart.js";
import { VERIFIED } from "../verified.js";
import { titleOf } from "./wording.js";

/** @typedef {import("./report-data.js").ReportData} ReportData */
/** @typedef {import("./report-data.js").Level} Level */

/** One sentence for each term, shown where it first appears. */
const TERMS = {
  risk: "The realised risk is the share of errors on problems whose right answers are known.",
  tokens: "Stopping earlier saves tokens and loses some answers that more thinking would have got right.",
  pValue:
    "A p-value is the probability of results at least this good if the policy’s risk were above α. Small is good: a tested policy with a small enough p-value is certified.",
  reliability: `A confidence is reliable (calibrated) if ${percent(0.8)} of all answers given with confidence 0.8 are right. The guarantee holds either way, but a reliable confidence saves more tokens.`,
  fingerprint: "A fingerprint lists everything the calibration depends on. Weights and templates appear as digests, which change when their content changes.",
};

/**
 * @param {ReportData} report
 * @param {{ explain: boolean, folded: boolean, onLevel: (alpha: number) => void }} options `explain`:
 *   whether terms are explained here, or elsewhere on the page; `folded`: whether long tables are
 * @returns {{ element: HTMLElement, draw: () => void, show: (alpha: number | null) => void, destroy: () => void }}
 *   `draw` once, after the element is on the page
 */
export function certificatePanel(report, { explain, folded, onLevel }) {
  const promise = guaranteeSection(report, (level) => (onLevel(level.alpha), choose(level)), explain);
  const risk = h("div");
  const tokens = h("div");
  const map = pValueMap(report.delta);
  const held = h("p", { class: "hint" });
  const reliability = h("div");
  const term = (/** @type {keyof typeof TERMS} */ name) => explain && h("p", { class: "term" }, TERMS[name]);
  const missing = report.missing && h("div", { class: "notice" }, h("h3", null, "No report data for this certificate"), h("p", null, report.missing));
  const drawn = report.maps.length > 0;
  const element = h(
    "article",
    { class: "certificate", "aria-label": titleOf(report) },
    promise.element,
    section("risk", "Target against realised risk", term("risk"), risk),
    section("tokens", "Tokens against target", term("tokens"), tokens),
    drawn ? section("map", "Which policies were certified", term("pValue"), map.element, held) : missing && h("section", { class: "map-part" }, missing),
    report.reliability &&
      section("reliability", "Is the confidence reliable?", term("reliability"), reliability, h("p", { class: "hint" }, inWords(report.reliability.all))),
    coverage(report),
    section("engine", "Does it apply to this engine?", term("fingerprint"), fingerprintTable(report, folded)),
  );
  /** @type {({ destroy: () => void } | null)[]} */
  const charts = [];

  /** @param {Level} level */
  function choose(level) {
    promise.show(level);
    replace(risk, riskRows(report, level));
    const found = report.maps.find((one) => one.alpha === level.alpha);
    if (!found) return;
    map.show(found);
    replace(held, heldWords(found.held));
  }

  return {
    element,
    draw() {
      charts.push(tokenChart(tokens, report));
      if (!tokens.childElementCount) tokens.append(h("p", { class: "hint" }, "No level is certified, so this chart is empty."));
      if (report.reliability) charts.push(reliabilityDiagram(reliability, report.reliability));
    },
    show(alpha) {
      const level = levelFor(report.levels, alpha);
      if (level) choose(level);
    },
    destroy() {
      map.destroy();
      for (const one of charts) one?.destroy();
      element.remove();
    },
  };
}

/**
 * @param {string} part names its class
 * @param {string} title
 * @param {...(Node | string | false | null)} children
 */
function section(part, title, ...children) {
  return h("section", { class: `${part}-part` }, h("h3", null, title), ...children);
}

/** @param {ReportData} report */
function coverage({ covers, does_not_cover: outside, verified, smallest_certifiable_alpha: smallest }) {
  return h(
    "section",
    { class: "coverage" },
    h("h3", null, "What it covers, and what it does not"),
    h("div", { class: "coverage-in" }, h("h4", null, "✓ Covered"), h("p", null, covers)),
    h("div", { class: "coverage-out" }, h("h4", null, "✕ Not covered"), h("ul", null, outside.map((one) => h("li", null, one)))),
    h("p", null, VERIFIED[verified]),
    h("p", { class: "hint" }, `The smallest certifiable α on these problems is about ${percent(smallest, 2)}. Use it to choose levels for the next calibration; it is not a guarantee.`),
  );
}

/** @param {Record<string, number | boolean>} settings that every cell of a map shares */
function heldWords(settings) {
  const { patience, lambda_answer: answer, lambda_vote: vote, lambda_stop: lead, smoothing } = /** @type {Record<string, number>} */ (settings);
  const parts = [
    patience && `patience ${number(patience)} tokens`,
    answer && `λa ${number(answer, 4)}`,
    vote && `minimum vote share ${percent(vote)}`,
    lead && `vote stop at a lead of ${percent(lead)}`,
    smoothing && `smoothing ${number(smoothing, 2)}`,
  ].filter(Boolean);
  return parts.length ? `Every cell uses ${parts.join(", ")}. Unmarked cells were not tested: among so many p-values, some are small by chance.` : "";
}
