/** Labels right of a plot, each beside its line: they cannot lie on the curve, nor on each other. */

import { confidence, decimalsOf } from "../format.js";
import { canStopHigh, canStopLow } from "./rule.js";

/**
 * @typedef {import("./run.js").Policy} Policy
 * @typedef {{ y: number, text: string, role: "blue" | "orange" | "green" }} Label `y`: its middle
 */

/** Room for the longest label of four decimals, CSS pixels. */
export const GUTTER = 106;
/** Room for a further decimal. */
const DIGIT = 7;
/** From one label to the next, CSS pixels. */
export const LINE = 16;

/** Whether λ1 is one line, and can be reached. @param {Policy} policy */
function hasLowLine(policy) {
  return canStopLow(policy) && !policy.low_rise;
}

/**
 * Decimals of a policy's labels: all have as many as the one that needs most.
 *
 * @param {Policy} policy
 */
function labelDecimals(policy) {
  const { lambda_high: high, lambda_low: low, lambda_answer: least = 0 } = policy;
  return decimalsOf([canStopHigh(policy) ? high : 0, hasLowLine(policy) ? low : 0, least]);
}

/**
 * Room for a policy's labels, CSS pixels.
 *
 * @param {Policy} policy
 */
export function gutterOf(policy) {
  return GUTTER + DIGIT * Math.max(0, labelDecimals(policy) - 4);
}

/**
 * The labels of a policy's thresholds.
 *
 * @param {Policy} policy
 * @param {(confidence: number) => number} y
 * @param {number} bottom lowest that a label may be
 * @param {number} [line] from one label to the next
 * @returns {Label[]}
 */
export function thresholdLabels(policy, y, bottom, line = LINE) {
  /** @type {Label[]} */
  const labels = [];
  const { lambda_high: high, lambda_low: low, lambda_answer: least } = policy;
  const written = (/** @type {number} */ value) => confidence(value, labelDecimals(policy));
  if (canStopHigh(policy)) labels.push({ y: y(high), text: `${written(high)} stop`, role: "blue" });
  if (hasLowLine(policy)) labels.push({ y: y(low), text: `${written(low)} ${policy.answer_on_low ? "stop" : "abstain"}`, role: "orange" });
  if (least) labels.push({ y: y(least), text: `${written(least)} to answer`, role: "green" });
  return spread(labels, bottom, line);
}

/**
 * Labels moved apart, as little as it takes, from the top down and back where the bottom is passed.
 *
 * @template {{ y: number }} Item
 * @param {Item[]} labels
 * @param {number} bottom
 * @param {number} line
 * @returns {Item[]} from the bottom up
 */
export function spread(labels, bottom, line) {
  const sorted = [...labels].sort((a, b) => a.y - b.y);
  let least = -Infinity;
  const down = sorted.map((one) => {
    least = Math.max(one.y, least + line);
    return { ...one, y: least };
  });
  let most = bottom;
  return down.reverse().map((one) => {
    const y = Math.min(one.y, most);
    most = y - line;
    return { ...one, y };
  });
}
