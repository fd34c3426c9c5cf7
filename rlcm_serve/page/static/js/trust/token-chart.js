/** Tokens against target, for one certificate or several. */

import { chart } from "../charts.js";
import { count, percent, tokens } from "../format.js";
import { figuresOf } from "./exhibit.js";
import { titleOf } from "./words.js";

/** @typedef {import("./exhibit.js").Exhibit} Exhibit */
/** @typedef {import("./exhibit.js").Figures} Figures */

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
 * @param {Exhibit} exhibit
 * @returns {import("../charts.js").Chart | null} null if no level is certified
 */
export function tokenChart(root, exhibit) {
  const points = pointsOf(exhibit);
  if (!points.length) return null;
  const x = points.map(({ alpha }) => alpha);
  /** @param {keyof Figures} name */
  const share = (name) => points.map(({ figures }) => Number(figures[name]));
  const abstains = points.some(({ figures }) => figures.share_answered < 0.9995);
  const set = exhibit.test ? count(exhibit.test.n_problems, "test problem") : count(exhibit.calibration.n_problems, "calibration problem");
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
 * @param {Exhibit[]} exhibits
 * @returns {import("../charts.js").Chart | null}
 */
export function comparedTokens(root, exhibits) {
  const shown = exhibits.map((exhibit, at) => ({ exhibit, look: LOOKS[at % LOOKS.length], points: pointsOf(exhibit) }));
  const all = shown.flatMap(({ points }) => points);
  if (!all.length) return null;
  const alphas = [...new Set(all.map(({ alpha }) => alpha))].sort((a, b) => a - b);
  const series = shown
    .filter(({ points }) => points.length)
    .map(({ exhibit, look, points }) => ({
      label: `${titleOf(exhibit)} (${exhibit.id})`,
      x: points.map(({ alpha }) => alpha),
      y: points.map(({ figures }) => figures.tokens),
      format: tokens,
      ...look,
    }));
  return chart(root, {
    label: `Tokens per question against target α, for ${exhibits.length} certificates.`,
    height: 280,
    legend: true,
    series,
    axes: {
      x: { label: "target α", min: 0, max: 1.1 * Math.max(...alphas), ticks: [0, ...alphas], format: percent },
      y: { label: "tokens per question", min: 0, max: 1.1 * Math.max(...all.map(({ figures }) => figures.tokens)) },
    },
  });
}

/** @param {Exhibit} exhibit */
function pointsOf(exhibit) {
  return exhibit.levels.flatMap((level) => {
    const figures = level.certified ? figuresOf(level) : null;
    return figures ? [{ alpha: level.alpha, figures }] : [];
  });
}
