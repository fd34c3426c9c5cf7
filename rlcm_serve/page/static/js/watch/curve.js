/** One sample's confidence against its tokens: thresholds, exit, and what was not spent. */

import { EXITS } from "../exits.js";
import { confidence, number, threshold, tokens } from "../format.js";
import { drawBands, drawMarks } from "../overlay.js";
import { plot } from "../plot.js";
import { colour } from "../theme.js";
import { canStopHigh, canStopLow, lowThreshold, readingDecimals } from "./rule.js";

/**
 * @typedef {import("./run.js").Policy} Policy
 * @typedef {import("./run.js").Sample} Sample
 * @typedef {import("../overlay.js").Band} Band
 * @typedef {import("../overlay.js").Mark} Mark
 *
 * @typedef {"solo" | "wide" | "medium" | "small"} Size of a lane
 */

/**
 * @typedef {object} Terms under which a sample is drawn
 * @property {Policy} policy
 * @property {number} budget tokens of its thinking
 * @property {number | null} usual tokens it takes on average if it is not stopped early
 */

/** Top of the scale of confidence: a mark at 1 is not cut off. */
const TOP = 1.06;
/** Width from which labels are sentences, CSS pixels. */
const ROOMY = 460;
/** @type {Record<Size, number>} */
const HEIGHTS = { solo: 300, wide: 170, medium: 120, small: 64 };

/**
 * @param {HTMLElement} root
 * @param {Sample} sample drawn as it is whenever `draw` is called
 * @param {Terms} terms
 * @param {Size} size
 * @returns {{ draw: () => void, destroy: () => void }}
 */
export function curve(root, sample, { policy, budget, usual }, size) {
  const labelled = size === "solo" || size === "wide";
  const bare = size === "small";
  const bands = zones(policy);
  const decimals = readingDecimals(policy);
  const { u, destroy } = plot(root, {
    x: {
      min: 0,
      max: budget,
      bare,
      ...(labelled && { label: "tokens of thinking" }),
      ticks: ticksUpTo(budget, size),
      format: (value) => number(value),
    },
    y: { min: 0, max: TOP, bare, ...(labelled && { label: "confidence" }), ticks: size === "medium" ? [0, 1] : [0, 0.5, 1], format: String },
    height: HEIGHTS[size],
    padding: bare ? [3, 3, 3, 3] : [12, 14, 0, 0],
    series: [
      {
        stroke: () => colour("ink"),
        width: size === "small" ? 1.5 : 2.25,
        points: { show: !bare, size: size === "solo" ? 6 : 4, fill: () => colour("ink"), stroke: () => colour("ink") },
      },
    ],
    data: [sample.at, sample.readings],
    hooks: {
      drawClear: [(/** @type {any} */ u) => drawBands(u, [...bands, ...unspent(sample, budget, bare)])],
      draw: [
        (/** @type {any} */ u) => {
          if (policy.low_rise) drawSigmoid(u, policy, budget);
          const roomy = labelled && u.width > ROOMY;
          drawMarks(u, [...linesOf(policy, usual, labelled, roomy), ...exitMark(sample, roomy, decimals)]);
        },
      ],
    },
  });
  u.batch(() => {});
  return {
    // A batch is drawn at once, so that the time it takes counts where frames are kept short.
    draw: () => u.batch(() => u.setData([sample.at, sample.readings])),
    destroy,
  };
}

/**
 * Where a reading stops the sample.
 *
 * @param {Policy} policy
 * @returns {Band[]}
 */
function zones(policy) {
  /** @type {Band[]} */
  const found = [];
  if (canStopHigh(policy)) found.push({ axis: "y", from: policy.lambda_high, to: TOP, role: "blue" });
  if (canStopLow(policy) && !policy.low_rise) found.push({ axis: "y", from: 0, to: policy.lambda_low, role: "orange" });
  return found;
}

/**
 * @param {Policy} policy
 * @param {number | null} usual
 * @param {boolean} labelled
 * @param {boolean} roomy labels may say what the lines mean
 * @returns {Mark[]}
 */
function linesOf(policy, usual, labelled, roomy) {
  /** @type {Mark[]} */
  const lines = [];
  if (usual !== null && labelled) {
    lines.push({ x: usual, role: "muted", dash: [2, 3], foot: true, ...(roomy && { label: `average end without stopping: ${number(usual)}` }) });
  }
  if (canStopHigh(policy)) {
    const label = `▲ λ2 ${threshold(policy.lambda_high)}${roomy ? ": confident enough, stop" : ""}`;
    lines.push({ y: policy.lambda_high, role: "blue", dash: [6, 4], ...(labelled && { label }) });
  }
  if (canStopLow(policy) && !policy.low_rise) {
    const patience = policy.patience ? ` for ${number(policy.patience)} tokens` : "";
    const label = `▼ λ1 ${threshold(policy.lambda_low)}${roomy ? `${patience}: stop` : ""}`;
    lines.push({ y: policy.lambda_low, role: "orange", dash: [2, 4], ...(labelled && { label }) });
  }
  return lines;
}

/**
 * @param {Sample} sample
 * @param {number} budget
 * @param {boolean} bare
 * @returns {Band[]}
 */
function unspent({ exit }, budget, bare) {
  if (!exit || exit.tokens >= budget) return [];
  const label = bare ? "" : `${number(budget - exit.tokens)} of ${tokens(budget)} saved`;
  return [{ axis: "x", from: exit.tokens, to: budget, role: "muted", hatch: true, label, corner: true }];
}

/**
 * @param {Sample} sample
 * @param {boolean} labelled
 * @param {number} decimals of its reading
 * @returns {Mark[]}
 */
function exitMark({ exit, readings }, labelled, decimals) {
  if (!exit) return [];
  const { mark, word, role } = EXITS[exit.exit];
  const y = exit.confidence ?? readings[readings.length - 1] ?? 0;
  const label = labelled ? `${word} at ${number(exit.tokens)}, ${confidence(y, decimals)}` : "";
  return [
    { x: exit.tokens, role, dash: [1, 0] },
    { x: exit.tokens, y, role, shape: mark, label },
  ];
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

/**
 * Round numbers up to the budget, and the budget itself.
 *
 * @param {number} budget
 * @param {Size} size
 */
function ticksUpTo(budget, size) {
  if (size === "medium") return [0, budget];
  const rough = budget / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((by) => by * power).find((by) => by >= rough) ?? rough;
  const ticks = [];
  for (let at = 0; at < budget - step / 2; at += step) ticks.push(at);
  return [...ticks, budget];
}
