/** At which confidence samples have ended since the start, against what the calibration problems gave. */

import { chart } from "../charts.js";
import { h, setText } from "../dom.js";
import { count, measured, number, percent } from "../format.js";

/** @typedef {import("./overview.js").Overview} Overview */

const FEW = 100;

/** @returns {{ element: HTMLElement, update: (overview: Overview) => void }} */
export function confidenceSection() {
  const words = h("p", { class: "muted" });
  const root = h("div");
  /** @type {import("../charts.js").Chart | null} */
  let drawn = null;
  let series = 0;
  return {
    element: h(
      "section",
      null,
      h("h3", null, "Confidence since the start, compared with calibration"),
      h("p", { class: "term" }, "If the two differ a lot, the questions are unlike the calibration problems, and the guarantee may not cover them. All samples since the start count the same, so a recent change shows late."),
      words,
      root,
    ),
    update({ confidence }) {
      setText(words, inWords(confidence));
      const settings = settingsOf(confidence);
      root.hidden = sum(confidence.now) === 0;
      if (drawn && settings.series.length !== series) {
        drawn.destroy();
        drawn = null;
      }
      series = settings.series.length;
      if (drawn) drawn.update(settings);
      else if (!root.hidden) drawn = chart(root, settings);
    },
  };
}

/** @param {Overview["confidence"]} confidence */
function inWords({ now, comparable, calibration }) {
  const all = sum(now);
  if (all === 0) return "No sample has ended since the start.";
  const ended = `${count(all, "sample")} ended since the start.`;
  if (!comparable || !calibration) return `${ended} None of them ran under a certificate whose calibration data are stored here.`;
  const total = sum(comparable);
  const shown = total < all ? ` The chart shows the ${number(total)} that ran under a certificate whose calibration data are stored here.` : "";
  if (total < FEW) return `${ended}${shown} These are too few to compare.`;
  const apart = sum(comparable.map((amount, bin) => Math.abs(amount / total - (calibration[bin] ?? 0)))) / 2;
  return `${ended}${shown} The two distributions differ in ${percent(Math.round(100 * apart) / 100)} of the samples; some of that is chance.`;
}

/** @param {number[]} amounts */
function sum(amounts) {
  return amounts.reduce((all, amount) => all + amount, 0);
}

/**
 * @param {Overview["confidence"]} confidence
 * @returns {import("../charts.js").ChartSettings}
 */
function settingsOf({ edges, now: all, comparable, calibration }) {
  const now = comparable ?? all;
  const total = sum(now);
  const middles = now.map((_, bin) => ((edges[bin] ?? 0) + (edges[bin + 1] ?? 1)) / 2);
  const shares = now.map((amount) => (total ? amount / total : 0));
  const top = Math.max(0.05, ...shares, ...(calibration ?? []));
  return {
    label: `Share of samples by the confidence at which they ended, since the start${calibration ? " and in calibration" : ""}. ${count(total, "sample")} since the start.`,
    height: 240,
    legend: true,
    series: [
      { label: "since the start", x: middles, y: shares, kind: "bars", bar: 0.05, fill: true, role: "blue", format: measured },
      ...(calibration
        ? [{ label: "calibration", x: middles, y: calibration, kind: /** @type {const} */ ("steps"), bar: 0.05, role: "orange", format: measured }]
        : []),
    ],
    axes: {
      x: { label: "confidence at the end", min: 0, max: 1, ticks: [0, 0.25, 0.5, 0.75, 1] },
      y: { label: "samples", min: 0, max: 1.12 * top, format: (share) => percent(share) },
    },
  };
}
