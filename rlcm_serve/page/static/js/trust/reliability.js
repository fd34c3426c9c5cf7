/** The reliability diagram: how often the model is right at each confidence. */

import { chart } from "../charts.js";
import { count, measured, number, percent } from "../format.js";

/** @typedef {import("./report-data.js").ReportData} ReportData */
/** @typedef {import("./report-data.js").Readings} Readings */

const TICKS = [0, 0.25, 0.5, 0.75, 1];

/**
 * @param {HTMLElement} root
 * @param {NonNullable<ReportData["reliability"]>} reliability
 * @returns {{ destroy: () => void }}
 */
export function reliabilityDiagram(root, { on_test: onTest, all, final }) {
  const set = onTest ? "test problems" : "calibration problems";
  const x = { label: "confidence", min: 0, max: 1, ticks: TICKS };
  const diagram = chart(root, {
    label: `Accuracy against confidence on the ${set}: ${inWords(all)}`,
    height: 300,
    series: [
      { label: "perfect calibration", x: [0, 1], y: [0, 1], role: "muted", dash: [5, 4], format: measured },
      line("at every reading", all, "blue"),
      line("at the end of thinking", final, "orange", [7, 4]),
    ],
    axes: { x, y: { label: "share right", min: 0, max: 1, ticks: TICKS, format: percent } },
  });
  const counts = chart(root, {
    label: `Readings at each confidence: ${count(all.n_readings, "reading")} in total.`,
    height: 110,
    legend: false,
    table: false,
    series: [
      {
        label: "readings",
        x: all.bins.map((bin) => (bin.low + bin.high) / 2),
        y: all.bins.map((bin) => bin.count),
        kind: "bars",
        bar: 0.1,
        fill: true,
        role: "blue",
        format: number,
      },
    ],
    axes: { x: { ...x, label: "confidence" }, y: { label: "readings", min: 0, max: 1.1 * Math.max(...all.bins.map((bin) => bin.count)), format: short } },
  });
  return {
    destroy() {
      diagram.destroy();
      counts.destroy();
    },
  };
}

/**
 * @param {string} label
 * @param {Readings} readings
 * @param {string} role
 * @param {number[]} [dash]
 */
function line(label, { bins }, role, dash) {
  return { label, x: bins.map((bin) => bin.confidence), y: bins.map((bin) => bin.accuracy), role, format: measured, ...(dash && { dash }) };
}

/**
 * What the summary figures say, each explained.
 *
 * @param {Readings} readings
 */
export function inWords({ n_readings: n, accuracy, ece, auroc }) {
  const ranking =
    auroc === null ? "" : ` A right answer has more confidence than a wrong one in ${measured(auroc)} of pairs (AUROC).`;
  return `${count(n, "reading")}, ${measured(accuracy)} of them right; accuracy differs from confidence by ${number(100 * ece, 1)} percentage points on average (ECE).${ranking}`;
}

/** @param {number} value */
function short(value) {
  return value >= 1000 ? `${number(value / 1000, 1)}k` : number(value);
}
