/** One certificate, whole: its promise with the evidence first, then what else there is to know. */

import { h, replace } from "../dom.js";
import { measured, number, percent, threshold, tokens } from "../format.js";
import { fingerprintTable } from "./fingerprint.js";
import { guaranteeSection, meaningSection } from "./guarantee.js";
import { pValueMap } from "./pvalue-map.js";
import { inWords, reliabilityDiagram } from "./reliability.js";
import { levelFor } from "./report-data.js";
import { VERIFIED } from "../verified.js";
import { titleOf } from "./wording.js";

/** @typedef {import("./report-data.js").ReportData} ReportData */
/** @typedef {import("./report-data.js").Level} Level */

/** One sentence for each term, shown where it first appears. */
const TERMS = {
  pValue:
    "A p-value is the probability of results at least this good if the risk were above α. Small is good: a tested stopping rule with a small enough p-value is certified.",
  reliability: "A confidence is reliable if 80% of all answers given with confidence 0.8 are right. The guarantee holds either way, but a reliable confidence saves more tokens.",
  fingerprint: "A fingerprint lists everything the calibration depends on. Weights and templates appear as digests, which change when their content changes.",
};

/**
 * @param {ReportData} report
 * @param {(alpha: number) => void} onLevel another level was chosen
 * @returns {{ front: HTMLElement, rest: HTMLElement, draw: () => void, show: (alpha: number | null) => void, destroy: () => void }}
 *   `front`: promise and evidence; `rest`: everything else. `draw` once, after both are on the page
 */
export function certificatePanel(report, onLevel) {
  const promise = guaranteeSection(report, (level) => (onLevel(level.alpha), choose(level)));
  const meaning = meaningSection(report);
  const map = pValueMap(report.delta);
  const held = h("p", { class: "hint" });
  const reliability = h("div");
  const missing = report.missing && h("div", { class: "notice" }, h("h3", null, "The measurements of this certificate are not stored here"), h("p", null, report.missing));
  const front = h("article", { class: "certificate", "aria-label": titleOf(report) }, promise.element, meaning.element);
  const rest = h(
    "article",
    { class: "certificate more", "aria-label": "More on this certificate" },
    h("h2", null, "More on this certificate ", h("code", null, report.id)),
    coverage(report),
    report.maps.length > 0
      ? folded("map", "Which stopping rules were tested", h("p", { class: "term" }, TERMS.pValue), map.element, held)
      : missing && h("section", { class: "map-part" }, missing),
    report.reliability &&
      folded("reliability", "Is the confidence reliable?", h("p", { class: "term" }, TERMS.reliability), reliability, h("p", { class: "hint" }, inWords(report.reliability.all))),
    section("engine", "Does it apply to this engine?", h("p", { class: "term" }, TERMS.fingerprint), fingerprintTable(report)),
  );
  /** @type {({ destroy: () => void } | null)[]} */
  const charts = [];

  /** @param {Level} level */
  function choose(level) {
    promise.show(level);
    meaning.show(level);
    const found = report.maps.find((one) => one.alpha === level.alpha);
    if (!found) return;
    map.show(found);
    replace(held, heldWords(found.held));
  }

  return {
    front,
    rest,
    draw() {
      if (report.reliability) charts.push(reliabilityDiagram(reliability, report.reliability));
    },
    show(alpha) {
      const level = levelFor(report.levels, alpha);
      if (level) choose(level);
    },
    destroy() {
      map.destroy();
      for (const one of charts) one?.destroy();
      front.remove();
      rest.remove();
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

/**
 * A section for experts, closed at first.
 *
 * @param {string} part names its class
 * @param {string} title
 * @param {...(Node | string | false | null)} children
 */
function folded(part, title, ...children) {
  return h("details", { class: `${part}-part fold` }, h("summary", null, h("h3", null, title)), ...children);
}

/** @param {ReportData} report */
function coverage({ covers, does_not_cover: outside, verified, smallest_certifiable_alpha: smallest }) {
  return h(
    "section",
    { class: "coverage" },
    h("h3", null, "What it covers, and what it does not"),
    h("div", { class: "coverage-in" }, h("h4", null, "✓ Covered, in the certificate’s own words"), h("p", null, covers)),
    h("div", { class: "coverage-out" }, h("h4", null, "✕ Not covered"), h("ul", null, outside.map((one) => h("li", null, one)))),
    h("p", null, VERIFIED[verified]),
    h("p", { class: "hint" }, `On these problems, no α below about ${measured(smallest)} can be certified. Use this to choose levels for a calibration on as many new problems; it is not a guarantee.`),
  );
}

/** @param {Record<string, number | boolean>} settings that every cell of a map shares */
function heldWords(settings) {
  const { patience, lambda_answer: answer, lambda_vote: vote, lambda_stop: lead, smoothing, low_rise: rise, low_shift: shift } = /** @type {Record<string, number>} */ (settings);
  const parts = [
    rise && `a threshold λ1 that rises by ${threshold(rise)}, half of it by ${tokens(shift ?? 0)}`,
    patience && `a patience of ${number(patience)} tokens`,
    answer && `the answer threshold λa ${threshold(answer)}`,
    vote && `at least ${percent(vote)} of the vote for the winner`,
    lead && `a vote that ends at a lead of ${percent(lead)}`,
    smoothing && `smoothing ${number(smoothing, 2)}`,
  ].filter(Boolean);
  return parts.length ? `Every cell uses ${parts.join(", ")}. Unmarked cells were not tested: among so many p-values, some are small by chance.` : "";
}
