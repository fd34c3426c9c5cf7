/** A certificate in plain sentences. Each term is explained by one of them, where it first appears. */

import { number, percent, threshold, tokens } from "../format.js";
import { RISKS } from "../risks.js";

/** @typedef {import("./exhibit.js").Exhibit} Exhibit */
/** @typedef {import("./exhibit.js").Level} Level */

/**
 * @param {string} risk one of the page's, or of one's own
 * @returns {Pick<import("../risks.js").RiskWords, "title" | "counts" | "promise" | "realised">}
 */
export function riskWords(risk) {
  const own = { title: risk, counts: `the mean of the loss “${risk}”`, promise: `is the mean loss “${risk}”`, realised: "mean loss" };
  return Object.hasOwn(RISKS, risk) ? RISKS[/** @type {import("../risks.js").Risk} */ (risk)] : own;
}

/**
 * @param {{ n: number, vote: string }} procedure
 * @returns {string} "1 sample", "4 samples, majority vote"
 */
export function samplesWords({ n, vote }) {
  if (n === 1) return "1 sample";
  return vote === "majority" ? `${n} samples, majority vote` : `${n} samples`;
}

/**
 * @param {Exhibit} exhibit
 * @returns {string} what it is for, as a title
 */
export function titleOf(exhibit) {
  return `${riskWords(exhibit.risk).title}, ${samplesWords(exhibit)}`;
}

/**
 * @param {Exhibit} exhibit
 * @param {Level} level
 * @returns {string}
 */
export function promiseOf(exhibit, level) {
  if (!level.certified) return `No guarantee at α = ${percent(level.alpha)}`;
  return `At most ${percent(level.alpha)} ${riskWords(exhibit.risk).promise}`;
}

/**
 * @param {Exhibit} exhibit
 * @returns {string} how sure the promise is
 */
export function surenessOf(exhibit) {
  const keep = Math.floor((1 - exhibit.delta) * 100 + 1e-9);
  const together =
    exhibit.promise === "pointwise"
      ? "The guarantee holds for one α that is chosen before looking at any result."
      : "The guarantee holds for all levels of α at once, so α may be chosen after looking at results.";
  return (
    `δ (delta) is the probability that the calibration problems were unrepresentative, here at most ${percent(exhibit.delta)}: ` +
    `of 100 such calibrations, about ${keep} or more keep their guarantee. ${together}`
  );
}

/**
 * What a policy does, rule by rule.
 *
 * @param {Exhibit} exhibit
 * @param {Level} level certified
 * @returns {{ exit: "high" | "low" | "natural" | null, text: string }[]} `exit` gives the rule its mark
 */
export function rulesOf(exhibit, level) {
  const policy = level.policy ?? {};
  const { patience, lambda_answer: answer, lambda_vote: vote, smoothing } = /** @type {Record<string, number>} */ (policy);
  /** @type {{ exit: "high" | "low" | "natural" | null, text: string }[]} */
  const rules = [];
  const one = exhibit.n > 1 ? "A sample" : "It";
  if (level.lambda_high !== null)
    rules.push({ exit: "high", text: `${one} stops and answers once its confidence reaches ${threshold(level.lambda_high)} (the threshold λ2).` });
  if (level.lambda_low !== null) {
    const then = policy["answer_on_low"] ? "stops and is forced to answer" : "stops and abstains";
    const lasting = patience ? ` for ${tokens(patience)}` : "";
    rules.push({ exit: "low", text: `${one} ${then} once its confidence has stayed at or below ${threshold(level.lambda_low)}${lasting} (the threshold λ1).` });
  }
  if (!rules.length) rules.push({ exit: null, text: `${one} never stops early.` });
  rules.push({
    exit: "natural",
    text:
      answer && answer > 0
        ? `If it is not stopped early, it answers only with a confidence of at least ${threshold(answer)} (the answer threshold λa).`
        : "If it is not stopped early, it answers at any confidence.",
  });
  if (exhibit.n > 1 && vote && vote > 0)
    rules.push({ exit: null, text: `The winner needs at least ${percent(vote)} of the vote; otherwise the service abstains.` });
  if (smoothing && smoothing > 0) rules.push({ exit: null, text: `Confidence is smoothed over the readings (exponential smoothing, weight ${number(smoothing, 2)}).` });
  return rules;
}

/**
 * A p-value to two digits: 0.0123 -> "0.012", 0.0000004 -> "0.0000004", 1e-12 -> "below 0.0000001".
 *
 * @param {number} p
 */
export function pValue(p) {
  if (p < 1e-7) return "below 0.0000001";
  if (p >= 0.9995) return "1";
  const digits = Math.max(2, 1 - Math.floor(Math.log10(p)));
  return p.toFixed(Math.min(digits, 8));
}
