/** One sample's confidence against its tokens: thresholds, exit, and what was not spent. */

import { EXITS } from "../exits.js";
import { number } from "../format.js";
import { drawBands, drawMarks, drawText } from "../overlay.js";
import { FONT, plot } from "../plot.js";
import { colour } from "../theme.js";
import { gutterOf, LINE, thresholdLabels } from "./gutter.js";
import { reachOf, ticksUpTo } from "./reach.js";
import { canStopHigh, canStopLow, lowThreshold } from "./rule.js";

/**
 * @typedef {import("./run.js").Policy} Policy
 * @typedef {import("./run.js").Sample} Sample
 * @typedef {import("../overlay.js").Band} Band
 * @typedef {import("../overlay.js").Mark} Mark
 *
 * @typedef {"solo" | "wide" | "medium"} Size of a lane
 */

/**
 * @typedef {object} Terms under which a sample is drawn
 * @property {Policy} policy
 * @property {number} budget tokens of its thinking
 * @property {number | null} usual tokens it takes on average if it is not stopped early
 */

/** Top of the scale of confidence: a mark at 1 is not cut off. */
export const TOP = 1.06;
/** @type {Record<Size, number>} */
const HEIGHTS = { solo: 300, wide: 170, medium: 120 };

/**
 * @param {HTMLElement} root
 * @param {Sample} sample drawn as it is whenever `draw` is called
 * @param {Terms} terms
 * @param {Size} size
 * @returns {{ draw: () => void, destroy: () => void }}
 */
export function curve(root, sample, { policy, budget, usual }, size) {
  const labelled = size === "solo" || size === "wide";
  const bands = zones(policy);
  const reach = () => reachOf(sample.exit?.tokens ?? Math.max(sample.tokens, sample.at.at(-1) ?? 0), usual, budget);
  const x = {
    min: 0,
    max: reach(),
    ...(labelled && { label: "tokens of thinking" }),
    ticks: () => ticksUpTo(x.max, size === "medium" ? 2 : 5),
    format: (/** @type {number} */ value) => number(value),
  };
  const { u, destroy } = plot(root, {
    x,
    y: { min: 0, max: TOP, ...(labelled && { label: "confidence" }), ticks: size === "medium" ? [0, 1] : [0, 0.5, 1], format: String },
    height: HEIGHTS[size],
    padding: [12, labelled ? gutterOf(policy) : 14, 0, 0],
    series: [
      {
        stroke: () => colour("ink"),
        width: 2.25,
        points: { show: true, size: size === "solo" ? 6 : 4, fill: () => colour("ink"), stroke: () => colour("ink") },
      },
    ],
    data: dataOf(sample),
    hooks: {
      drawClear: [(/** @type {any} */ u) => drawBands(u, [...bands, ...unspent(sample, usual)])],
      draw: [
        (/** @type {any} */ u) => {
          if (policy.low_rise) drawSigmoid(u, policy, budget);
          drawMarks(u, [...linesOf(policy, usual), ...exitMark(sample)]);
          if (labelled) drawLabels(u, policy);
        },
      ],
    },
  });
  u.batch(() => {});
  return {
    // A batch is drawn at once, so that the time it takes counts where frames are kept short.
    draw: () => {
      x.max = reach();
      u.batch(() => u.setData(dataOf(sample)));
    },
    destroy,
  };
}

/**
 * A sample's readings as uPlot takes them, with null for what could not be read.
 *
 * @param {Sample} sample
 */
function dataOf({ at, readings }) {
  return [at, readings.map((reading) => (Number.isNaN(reading) ? null : reading))];
}

/**
 * Where a reading stops the sample.
 *
 * @param {Policy} policy
 * @returns {Band[]}
 */
export function zones(policy) {
  /** @type {Band[]} */
  const found = [];
  if (canStopHigh(policy)) found.push({ axis: "y", from: policy.lambda_high, to: TOP, role: "blue" });
  if (canStopLow(policy) && !policy.low_rise) found.push({ axis: "y", from: 0, to: policy.lambda_low, role: "orange" });
  return found;
}

/**
 * @param {Policy} policy
 * @param {number | null} usual
 * @returns {Mark[]}
 */
export function linesOf(policy, usual) {
  /** @type {Mark[]} */
  const lines = [];
  if (usual !== null) lines.push({ x: usual, role: "muted", dash: [2, 3] });
  if (canStopHigh(policy)) lines.push({ y: policy.lambda_high, role: "blue", dash: [6, 4] });
  if (canStopLow(policy) && !policy.low_rise) lines.push({ y: policy.lambda_low, role: "orange", dash: [2, 4] });
  return lines;
}

/**
 * The tokens that such a sample usually takes and this one did not.
 *
 * @param {Sample} sample
 * @param {number | null} usual
 * @returns {Band[]}
 */
function unspent({ exit }, usual) {
  if (!exit || usual === null || exit.tokens >= usual) return [];
  return [{ axis: "x", from: exit.tokens, to: usual, role: "muted", hatch: true }];
}

/**
 * @param {Sample} sample
 * @returns {Mark[]}
 */
function exitMark(sample) {
  const { exit } = sample;
  return exit ? [{ x: exit.tokens, role: EXITS[exit.exit].role, dash: [1, 0] }, ...exitPoint(sample)] : [];
}

/**
 * The point at which a sample ended; none where its confidence could not be read.
 *
 * @param {Sample} sample
 * @returns {Mark[]}
 */
export function exitPoint({ exit, readings }) {
  if (!exit) return [];
  const { mark, role } = EXITS[exit.exit];
  const y = exit.confidence ?? readings.at(-1) ?? 0;
  return Number.isNaN(y) ? [] : [{ x: exit.tokens, y, role, shape: mark }];
}

/**
 * The thresholds by number, right of the plot.
 *
 * @param {any} u uPlot
 * @param {Policy} policy
 */
export function drawLabels(u, policy) {
  const { ctx } = u;
  const { left, top, width, height } = u.bbox;
  const ratio = devicePixelRatio;
  const y = (/** @type {number} */ value) => u.valToPos(value, "y", true);
  ctx.save();
  ctx.font = FONT.replace("12px", `${12 * ratio}px`);
  for (const label of thresholdLabels(policy, y, top + height, LINE * ratio)) {
    ctx.fillStyle = colour(label.role);
    drawText(ctx, label.text, left + width + 8 * ratio, label.y, "left", "middle");
  }
  if (policy.lambda_answer) {
    ctx.strokeStyle = colour("green"); // it counts at a sample's own end alone
    ctx.lineWidth = 3 * ratio;
    ctx.beginPath();
    ctx.moveTo(left + width - 14 * ratio, y(policy.lambda_answer));
    ctx.lineTo(left + width, y(policy.lambda_answer));
    ctx.stroke();
  }
  ctx.restore();
}

/**
 * λ1 where it depends on the tokens.
 *
 * @param {any} u uPlot
 * @param {Policy} policy
 * @param {number} budget
 */
function drawSigmoid(u, policy, budget) {
  const { ctx } = u;
  ctx.save();
  ctx.strokeStyle = colour("orange");
  ctx.lineWidth = 1.5 * devicePixelRatio;
  ctx.setLineDash([2 * devicePixelRatio, 4 * devicePixelRatio]);
  ctx.beginPath();
  for (let i = 0; i <= 60; i += 1) {
    const tokens = (budget * i) / 60;
    const y = Math.max(0, lowThreshold(policy, tokens));
    ctx.lineTo(u.valToPos(tokens, "x", true), u.valToPos(y, "y", true));
  }
  ctx.stroke();
  ctx.restore();
}
