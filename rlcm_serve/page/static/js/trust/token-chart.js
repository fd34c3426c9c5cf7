/** Tokens against target, for one certificate or several. */

import { chart } from "../charts.js";
import { count, percent, tokens } from "../format.js";
import { figuresOf } from "./report-data.js";
import { titleOf } from "./wording.js";

/** @typedef {import("./report-data.js").ReportData} ReportData */
/** @typedef {import("./report-data.js").Figures} Figures */

const LOOKS = [
  { role: "blue" },
  { role: "orange", dash: [7, 4] },
  { role: "green", dash: [2, 3] },
  { role: "purple", dash: [10, 3, 2, 3] },
];

/**
 * What a certificate's levels cost, and what they answer, as shares.
 *
 * @param {HTMLElement} root
 * @param {ReportData} report
 * @returns {import("../charts.js").Chart | null} null if no level is certified
 */
export function tokenChart(root, report) {
  const points = pointsOf(report);
  if (!points.length) return null;
  const x = points.map(({ alpha }) => alpha);
  /** @param {keyof Figures} name */
  const share = (name) => points.map(({ figures }) => Number(figures[name]));
  const abstains = points.some(({ figures }) => figures.share_answered < 0.9995);
  const set = report.test ? count(report.test.n_problems, "test problem") : count(report.calibration.n_problems, "calibration problem");
  const words = points.map(({ alpha, figures }) => `at α = ${percent(alpha)}, ${percent(figures.tokens_share)}`);
  return chart(root, {
    label: `Tokens as a share of the full budget, on ${set}: ${words.join("; ")}.`,
    height: 300,
    legend: true,
    series: [
      { label: "tokens, share of the full budget", x, y: share("tokens_share"), role: "blue", format: percent },
      ...(abstains ? [{ label: "questions answered", x, y: share("share_answered"), role: "muted", dash: [7, 4], format: percent }] : []),
      { label: "questions answered right", x, y: share("share_right"), role: "orange", dash: [2, 3], format: percent },
    ],
    axes: {
      x: { label: "target α", min: 0, max: 1.15 * Math.max(...x), ticks: [0, ...x], format: percent },
      y: { min: 0, max: 1.08, ticks: [0, 0.25, 0.5, 0.75, 1], format: percent },
    },
    marks: [{ y: 1, role: "muted", label: "full budget" }],
  });
}

/**
 * Tokens per question of several certificates, against their targets.
 *
 * @param {HTMLElement} root
 * @param {ReportData[]} reports
 * @returns {import("../charts.js").Chart | null}
 */
export function comparedTokens(root, reports) {
  const shown = reports.map((report, at) => ({ report, look: LOOKS[at % LOOKS.length], points: pointsOf(report) }));
  const all = shown.flatMap(({ points }) => points);
  if (!all.length) return null;
  const alphas = [...new Set(all.map(({ alpha }) => alpha))].sort((a, b) => a - b);
  const series = shown
    .filter(({ points }) => points.length)
    .map(({ report, look, points }) => ({
      label: `${titleOf(report)} (${report.id})`,
      x: points.map(({ alpha }) => alpha),
      y: points.map(({ figures }) => figures.tokens),
      format: tokens,
      ...look,
    }));
  return chart(root, {
    label: `Tokens per question against target α, for ${reports.length} certificates.`,
    height: 280,
    legend: true,
    series,
    axes: {
      x: { label: "target α", min: 0, max: 1.1 * Math.max(...alphas), ticks: [0, ...alphas], format: percent },
      y: { label: "tokens per question", min: 0, max: 1.1 * Math.max(...all.map(({ figures }) => figures.tokens)) },
    },
  });
}

/** @param {ReportData} report */
function pointsOf(report) {
  return report.levels.flatMap((level) => {
    const figures = level.certified ? figuresOf(level) : null;
    return figures ? [{ alpha: level.alpha, figures }] : [];
  });
}
