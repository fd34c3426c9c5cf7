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
  if (!level.certified) return `Nothing is promised at α = ${percent(level.alpha)}`;
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
      ? "It holds for one α, chosen before looking at any outcome."
      : "It holds for all its levels of α at once, so α may be chosen after looking.";
  return (
    `δ (delta) is the chance that this calibration was an unlucky one, here ${percent(exhibit.delta)}: ` +
    `of 100 calibrations made this way, at least ${keep} keep what they promise. ${together}`
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
    rules.push({ exit: "high", text: `${one} stops and answers once its confidence is ${threshold(level.lambda_high)} or more: that threshold is λ2.` });
  if (level.lambda_low !== null) {
    const then = policy["answer_on_low"] ? "stops and answers by force" : "gives up";
    const lasting = patience ? ` for ${tokens(patience)}` : "";
    rules.push({ exit: "low", text: `${one} ${then} once its confidence has been ${threshold(level.lambda_low)} or less${lasting}: that threshold is λ1.` });
  }
  if (!rules.length) rules.push({ exit: null, text: `${one} never stops early.` });
  rules.push({
    exit: "natural",
    text:
      answer && answer > 0
        ? `If it thinks to its end, it answers only at a confidence of ${threshold(answer)} or more (λa).`
        : "If it thinks to its end, it answers whatever its confidence.",
  });
  if (exhibit.n > 1 && vote && vote > 0)
    rules.push({ exit: null, text: `The winner of the vote is given as the answer if it holds ${percent(vote)} of it or more; otherwise nothing is answered.` });
  if (smoothing && smoothing > 0) rules.push({ exit: null, text: `Confidence is smoothed over readings, by ${number(smoothing, 2)}.` });
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
