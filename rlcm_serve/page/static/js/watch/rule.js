/** The exit rule (RLCM §5.1), for drawing it and for saying where another α would have stopped. */

import { decimalsOf } from "../format.js";

/** @typedef {import("./run.js").Policy} Policy */

/**
 * λ1 at `tokens` reasoning tokens: constant, or a sigmoid of them.
 *
 * @param {Policy} policy
 * @param {number} tokens
 */
export function lowThreshold({ lambda_low, low_rise = 0, low_slope = 0, low_shift = 0 }, tokens) {
  if (low_rise === 0) return lambda_low;
  return lambda_low + low_rise / (1 + Math.exp(-low_slope * (tokens - low_shift)));
}

/** Whether λ2 can be reached. @param {Policy} policy */
export function canStopHigh(policy) {
  return policy.lambda_high <= 1;
}

/** Whether λ1 can be reached. @param {Policy} policy */
export function canStopLow(policy) {
  return policy.lambda_low + (policy.low_rise ?? 0) >= 0;
}

/**
 * Decimals in which a reading is written beside the thresholds of a policy.
 *
 * @param {Policy} policy
 */
export function readingDecimals(policy) {
  const { lambda_high, lambda_low, lambda_answer = 0 } = policy;
  return decimalsOf([canStopHigh(policy) ? lambda_high : 0, canStopLow(policy) ? lambda_low : 0, lambda_answer]);
}

/**
 * What the rule compares with its thresholds: each reading, smoothed over those before it. NaN is no reading: it
 * triggers no exit, makes later smoothed values NaN, and leads to no answer.
 *
 * @param {Policy} policy
 * @param {number[]} readings
 * @returns {number[]}
 */
export function smoothedOf({ smoothing = 0 }, readings) {
  let smooth = NaN;
  return readings.map((reading, i) => (smooth = i === 0 || smoothing === 0 ? reading : smoothing * smooth + (1 - smoothing) * reading));
}

/**
 * Whether a policy that stopped nowhere answers at the natural end or the budget.
 *
 * @param {Policy} policy
 * @param {number[]} readings all of them, the final one last
 */
export function answersAtEnd(policy, readings) {
  return (smoothedOf(policy, readings).at(-1) ?? NaN) >= (policy.lambda_answer ?? 0);
}

/**
 * Whether a policy lets an ended sample answer, if its answer can be read.
 *
 * @param {Policy} policy
 * @param {Pick<import("./run.js").SampleEnd, "exit" | "confidence">} sample
 * @param {number | null} [last] what the rule compares with λa; the reading itself without smoothing
 */
export function mayAnswer({ lambda_answer: least = 0, answer_on_low = false }, { exit, confidence }, last = confidence) {
  if (exit === "low") return answer_on_low;
  return exit === "high" || (exit !== "cancelled" && last !== null && last >= least);
}

/**
 * Whether all samples that were not cancelled came to their own end, and none of their confidences could be read there.
 *
 * @param {Pick<import("./run.js").SampleEnd, "exit" | "confidence">[]} samples
 */
export function endedUnread(samples) {
  const ended = samples.filter(({ exit }) => exit !== "cancelled");
  return ended.length > 0 && ended.every(({ exit, confidence }) => (exit === "natural" || exit === "budget") && confidence === null);
}

/**
 * Where a policy stops on recorded readings; null if on none of them.
 *
 * @param {Policy} policy
 * @param {number[]} at tokens at each reading
 * @param {number[]} readings confidence there, without a final one
 * @returns {{ exit: "high" | "low", tokens: number, confidence: number } | null}
 */
export function findExit(policy, at, readings) {
  const { lambda_high, patience = 0 } = policy;
  const smoothed = smoothedOf(policy, readings);
  /** Tokens of the first of the readings that have been low without a break. */
  let lowSince = 0; // before the first reading nothing was high
  for (const [i, tokens] of at.entries()) {
    const reading = readings[i] ?? NaN;
    const smooth = smoothed[i] ?? NaN;
    if (smooth >= lambda_high) return { exit: "high", tokens, confidence: reading };
    if (!(smooth <= lowThreshold(policy, tokens))) lowSince = tokens;
    else if (tokens >= patience && lowSince <= tokens - patience) {
      return { exit: "low", tokens, confidence: reading };
    }
  }
  return null;
}
