/** Several certificates against each other, on one screen: what differs in words, then the evidence. */

import { h, replace } from "../dom.js";
import { writeFragment } from "../fragment.js";
import { changesOf } from "./changes.js";
import { LOOKS, evidenceLegend, evidenceTable, letterOf } from "./evidence.js";
import { levelFor } from "./report-data.js";
import { stateOf, titleOf } from "./wording.js";

/** @typedef {import("./report-data.js").ReportData} ReportData */

/**
 * @param {ReportData[]} reports two or more
 * @param {(alpha: number) => void} onLevel another level was chosen
 * @returns {{ element: HTMLElement, show: (alpha: number | null) => void, destroy: () => void }}
 */
export function comparison(reports, onLevel) {
  const differences = h("ul", { class: "differences" });
  const table = evidenceTable(reports, (alpha) => (onLevel(alpha), show(alpha)));
  const names = h(
    "ul",
    { class: "compared-names" },
    reports.map((report, at) => {
      const { mark, word } = stateOf(report);
      return h("li", null, letterOf(LOOKS[at] ?? { letter: "?", role: "blue" }), " ", h("a", { href: writeFragment("trust", { id: report.id }) }, titleOf(report)), " ", h("code", null, report.id), ` ${mark} ${word}`);
    }),
  );
  const element = h(
    "section",
    { class: "comparison", "aria-label": "Comparison" },
    names,
    reports.length === 2 && [h("h2", null, "What differs"), differences],
    h("h2", null, "What was measured"),
    evidenceLegend(reports),
    h("div", { class: "wide" }, table.element),
    h("p", { class: "term" }, "Each guarantee holds for its certificate alone: choose one before you look at results."),
  );

  /** @param {number | null} alpha */
  function show(alpha) {
    const [a, b] = reports;
    const common = a?.levels.filter((level) => level.certified && b?.levels.some((one) => one.certified && one.alpha === level.alpha)) ?? [];
    const asked = reports.flatMap(({ levels }) => levels).find((level) => level.alpha === alpha);
    const level = asked ?? levelFor(common.length ? common : (a?.levels ?? []), alpha);
    if (!a || !b || !level) return;
    table.show(level.alpha);
    replace(differences, changesOf(a, b, level.alpha).map((words) => h("li", null, words)));
  }

  return { element, show, destroy: () => element.remove() };
}
