/** A certificate in plain sentences. Each term is explained by one of them, where it first appears. */

import { list, number, percent, threshold, tokens } from "../format.js";
import { RISKS } from "../risks.js";

/** @typedef {import("./report-data.js").ReportData} ReportData */
/** @typedef {import("./report-data.js").Level} Level */

/**
 * @param {string} risk one of the page's, or of one's own
 * @returns {Pick<import("../risks.js").RiskWording, "title" | "counts" | "promise" | "realised">}
 */
export function riskWording(risk) {
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
 * @param {ReportData} report
 * @returns {string} what it is for, as a title
 */
export function titleOf(report) {
  return `${riskWording(report.risk).title}, ${samplesWords(report)}${kindWords(report)}`;
}

/**
 * @param {Pick<ReportData, "kind">} report
 * @returns {string} the kind of question that it is for, to follow other words
 */
export function kindWords({ kind }) {
  if (!kind) return "";
  return kind.name ? `, ${kind.by} “${kind.name}”` : ", all kinds";
}

/**
 * @param {ReportData} report
 * @param {Level} level
 * @returns {string}
 */
export function guaranteeOf(report, level) {
  if (!level.certified) return `No guarantee at α = ${percent(level.alpha)}`;
  const among = report.kind?.name ? `Of questions of the kind “${report.kind.name}”, at` : "At";
  return `${among} most ${percent(level.alpha)} ${riskWording(report.risk).promise}`;
}

/**
 * @param {Level[]} levels by rising α
 * @param {Level} level
 * @returns {string} which neighbouring levels have the policy of this one, to follow other words; "" if none has
 */
export function samePolicyOf(levels, level) {
  /** @param {Level} other */
  const policyOf = (other) => (other.certified ? JSON.stringify(other.policy) : null);
  const certified = levels.filter((one) => one.certified);
  const at = certified.indexOf(level);
  if (at < 0) return "";
  let [first, last] = [at, at];
  while (first > 0 && policyOf(certified[first - 1] ?? level) === policyOf(level)) first -= 1;
  while (last + 1 < certified.length && policyOf(certified[last + 1] ?? level) === policyOf(level)) last += 1;
  if (first === last) return "";
  const alphas = certified.slice(first, last + 1).map((one) => percent(one.alpha));
  return ` α = ${list(alphas)} have the same policy, so questions are answered in the same way at each of them.`;
}

/** Other risks that hold at once, as shares of all questions. */
const SIDES = /** @type {Record<string, string>} */ ({
  declined: "are declined",
  wrong: "get a wrong answer",
  lost: "lose a right answer of the full budget",
});

/**
 * @param {Pick<ReportData, "joint" | "levels" | "risk">} report
 * @param {Level} level certified
 * @returns {string} what holds at once with the level, in a sentence after others; "" if nothing does
 */
export function jointlyOf({ joint, levels, risk }, level) {
  if (!joint) return "";
  const at = levels.findIndex(({ alpha }) => alpha === level.alpha);
  const said = joint.bounds.map(({ risk: side, bounds }) => `at most ${percent(bounds[at] ?? 1)} of all questions ${SIDES[side] ?? side}`);
  const most = joint.next?.most[at];
  if (joint.next && typeof most === "number") {
    const answered = risk === "selective" ? "answered " : "";
    said.push(`of the next ${number(joint.next.questions)} ${answered}questions at most ${number(most)} go wrong`);
  }
  return ` At once, ${said.join(", and ")}.`;
}

/**
 * @param {ReportData} report
 * @returns {string} how sure the promise is
 */
export function surenessOf(report) {
  const delta = report.kind?.delta ?? report.joint?.delta ?? report.delta;
  const keep = Math.floor((1 - delta) * 100 + 1e-9);
  const kinds = report.kind ? " The certificates of all kinds of questions keep theirs at once." : "";
  const together =
    report.promise === "pointwise"
      ? "The guarantee holds for one α that is chosen before looking at any result."
      : "The guarantee holds for all levels of α at once, so α may be chosen after looking at them and at the answers to other questions. " +
        "It does not hold for a question that is asked again because it was not answered.";
  return (
    `δ (delta) is the probability that the calibration problems were unrepresentative, here at most ${percent(delta)}: ` +
    `of 100 such calibrations, about ${keep} or more keep their guarantee.${kinds} ${together}`
  );
}

/**
 * What a policy does, rule by rule.
 *
 * @param {ReportData} report
 * @param {Level} level certified
 * @returns {{ exit: "high" | "low" | "natural" | null, text: string }[]} `exit` gives the rule its mark
 */
export function rulesOf(report, level) {
  const policy = level.policy ?? {};
  const { patience, lambda_answer: answer, lambda_vote: vote, lambda_stop: lead, smoothing } = /** @type {Record<string, number>} */ (policy);
  /** @type {{ exit: "high" | "low" | "natural" | null, text: string }[]} */
  const rules = [];
  const one = report.n > 1 ? "A sample" : "It";
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
  if (report.n > 1 && vote && vote > 0)
    rules.push({ exit: null, text: `The winner needs at least ${percent(vote)} of the vote; otherwise the service abstains.` });
  if (report.n > 1 && lead && lead <= 1)
    rules.push({ exit: null, text: `Once an answer is ahead of every other one by ${percent(lead)} of all ${number(report.n)} votes, the samples that still think are ended.` });
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
