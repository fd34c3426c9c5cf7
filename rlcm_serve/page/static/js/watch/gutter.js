/** Labels right of a plot, each beside its line: they cannot lie on the curve, nor on each other. */

import { decimalsOf } from "../format.js";
import { canStopHigh, canStopLow } from "./rule.js";

/**
 * @typedef {import("./run.js").Policy} Policy
 * @typedef {{ y: number, text: string, role: "blue" | "orange" | "green" }} Label `y`: its middle
 */

/** Room for the longest label, CSS pixels. */
export const GUTTER = 106;
/** From one label to the next, CSS pixels. */
export const LINE = 16;

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
  const [stops, stopsLow] = [canStopHigh(policy), canStopLow(policy) && !policy.low_rise];
  // All with as many decimals as the one that needs most.
  const decimals = decimalsOf([stops ? high : 0, stopsLow ? low : 0, least ?? 0]);
  if (stops) labels.push({ y: y(high), text: `${high.toFixed(decimals)} stop`, role: "blue" });
  if (stopsLow) labels.push({ y: y(low), text: `${low.toFixed(decimals)} ${policy.answer_on_low ? "stop" : "abstain"}`, role: "orange" });
  if (least) labels.push({ y: y(least), text: `${least.toFixed(decimals)} to answer`, role: "green" });
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
