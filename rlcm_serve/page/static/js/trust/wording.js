/** A certificate in plain sentences. Each term is explained by one of them, where it first appears. */

import { servedLevel } from "../ask/levels.js";
import { atMost, list, mostOf, number, percent, threshold, tokens } from "../format.js";
import { RISKS } from "../risks.js";

/** @typedef {import("./report-data.js").ReportData} ReportData */
/** @typedef {import("./report-data.js").Level} Level */

/**
 * @param {string} risk one of the page's, or of one's own
 * @returns {Pick<import("../risks.js").RiskWording, "title" | "counts" | "promise" | "realised" | "measured">}
 */
export function riskWording(risk) {
  const own = { title: risk, counts: `the mean of the loss “${risk}”`, promise: `mean loss “${risk}”`, realised: "was the mean loss", measured: "mean loss" };
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
  const equally = report.average === "groups" ? "counting every group of questions equally, " : "";
  const among = report.kind?.name ? `of questions of the kind “${report.kind.name}”, ` : "";
  const promise = report.voided ? "The promise, which this engine does not give" : report.withdrawn ? "The promise that was withdrawn" : "The promise";
  return `${promise}: ${equally}${among}at most ${percent(level.alpha)} ${riskWording(report.risk).promise}`;
}

/**
 * @param {import("../ask/question.js").Question} question
 * @param {import("../ask/levels.js").Certificate} certificate that applies to it
 * @returns {string} why this certificate and this level are shown, to follow other words
 */
export function askedWords({ alpha }, certificate) {
  const served = servedLevel(certificate, alpha);
  const set = `α = ${percent(alpha)}`;
  const applies = ` This certificate applies to your settings in Ask: ${samplesWords(certificate.procedure)}, ${set}.`;
  if (!served) return `${applies} It has no certified level for ${set}.`;
  return Math.abs(served.alpha - alpha) < 1e-9 ? applies : `${applies} A question is then answered at the level of ${percent(served.alpha)}.`;
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
  return ` α = ${list(alphas)} have the same stopping rule, so questions are answered in the same way at each of them.`;
}

/** Other risks that hold at once, as shares of all questions that the certificate is for. */
const SIDES = /** @type {Record<string, (share: string, questions: string) => string>} */ ({
  declined: (share, questions) => `the service abstains on at most ${share} of ${questions}`,
  wrong: (share, questions) => `at most ${share} of ${questions} get a wrong answer`,
  lost: (share, questions) => `at most ${share} of ${questions} lose a right answer of the full budget`,
});

/**
 * @param {Pick<ReportData, "joint" | "levels" | "risk" | "kind" | "average">} report
 * @param {Level} level certified
 * @returns {string} what holds at once with the level, in a sentence after others; "" if nothing does
 */
export function jointlyOf({ joint, levels, risk, kind, average }, level) {
  if (!joint) return "";
  const questions = kind?.name ? "all questions of this kind" : "all questions";
  const at = levels.findIndex(({ alpha }) => alpha === level.alpha);
  const said = joint.bounds.map(({ risk: side, bounds }) => SIDES[side]?.(atMost(bounds[at] ?? 1), questions) ?? `${side} is at most ${atMost(bounds[at] ?? 1)}`);
  const most = joint.next?.most[at];
  if (joint.next && typeof most === "number") {
    const answered = risk === "selective" ? "answered " : "";
    const apart = joint.next.different_groups ? " from different groups" : "";
    said.push(`in one count of ${number(joint.next.questions)} ${answered}questions${apart}, from a moment that was fixed before, at most ${number(most)} go wrong`);
  }
  const equally = average === "groups" ? "counting every group of questions equally, " : "";
  return ` At the same time, ${equally}${said.join(", and ")}.`;
}

/**
 * @param {Pick<ReportData, "active" | "fits" | "withdrawn" | "voided">} report
 * @returns {{ mark: string, word: string, kind: string }} whether questions run under it: a shape, words and a class
 */
export function stateOf({ active, fits, withdrawn, voided }) {
  if (fits === false) return { mark: "✕", word: "for another engine", kind: "bad" };
  if (voided) return { mark: "✕", word: "no guarantee on this engine", kind: "bad" };
  if (withdrawn) return { mark: "✕", word: "promise withdrawn", kind: "bad" };
  return active ? { mark: "●", word: "active", kind: "good" } : { mark: "○", word: "not active", kind: "" };
}

/**
 * @param {Level} level without a certified policy
 * @returns {{ short: string, long: string }} why it has none
 */
export function whyNot({ alpha, reason }) {
  const at = `α = ${percent(alpha)} could not be certified with this data`;
  const [why] = (reason ?? "").split(":");
  const found = {
    "too few problems": ["too few problems", "there are too few problems to show that the risk is this low. More problems may help."],
    "risk too high": ["too many errors", "the stopping rule that is tested first made too many errors, and no other one was certified. A larger α, a better model or a better probe may help."],
    "limit too low": ["limits too strict", "no stopping rule kept the other limits as well. A larger α or wider limits may help."],
  }[why ?? ""];
  if (!found) return { short: "not certified", long: `${at}.` };
  return { short: `not certified: ${found[0]}`, long: `${at}: ${found[1]}` };
}

/**
 * The probability that anything fails which a certificate's calibration promised, and not its part alone.
 *
 * @param {Pick<ReportData, "kind" | "joint" | "delta">} report
 */
export function wholeDelta({ kind, joint, delta }) {
  return kind?.delta ?? joint?.delta ?? delta;
}

/**
 * What a certificate's own words say of its test, to follow other sentences; "" if it holds at any number of problems.
 *
 * @param {string} covers
 */
export function limitOf(covers) {
  return covers.includes("asymptotic") ? " This holds only in the limit of many calibration problems, because the test is asymptotic." : "";
}

/**
 * @param {ReportData} report
 * @returns {string} how sure the promise is
 */
export function surenessOf(report) {
  const delta = wholeDelta(report);
  const kinds = report.kind ? " The certificates of all kinds of questions keep theirs at once." : "";
  const together =
    report.promise === "pointwise"
      ? "It holds for one α that is chosen before looking at any result."
      : "It holds for all levels of α at once, so you may choose α after looking at results.";
  return (
    `The calibration problems are a random sample, and a sample can mislead. δ (delta) is the probability of that, here at most ${atMost(delta)}: ` +
    `${mostOf(delta, 100)} such calibrations break their promise.${limitOf(report.covers)}${kinds} ${together} ` +
    "It does not hold for a question that is asked again because it was not answered."
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
  const { patience, lambda_answer: answer, lambda_vote: vote, lambda_stop: lead, smoothing, low_rise: rise, low_shift: shift } = /** @type {Record<string, number>} */ (policy);
  /** @type {{ exit: "high" | "low" | "natural" | null, text: string }[]} */
  const rules = [];
  const one = report.n > 1 ? "A sample" : "It";
  if (level.lambda_high !== null)
    rules.push({ exit: "high", text: `${one} stops and answers once its confidence reaches ${threshold(level.lambda_high)} (the threshold λ2).` });
  if (level.lambda_low !== null) {
    const then = policy["answer_on_low"] ? "stops and is forced to answer" : "stops and abstains";
    const lasting = patience ? ` for ${tokens(patience)}` : "";
    const where = rise ? `below a threshold that ${risesFrom(level.lambda_low, rise, shift ?? 0)},` : `at or below ${threshold(level.lambda_low)}`;
    rules.push({ exit: "low", text: `${one} ${then} once its confidence has stayed ${where}${lasting} (the threshold λ1).` });
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
 * How the threshold λ1 rises while a sample thinks.
 *
 * @param {number} low where it begins
 * @param {number} rise
 * @param {number} shift tokens at which half of the rise is reached
 */
function risesFrom(low, rise, shift) {
  return `rises from ${threshold(low)} to ${threshold(low + rise)}, half of it by ${tokens(shift)}`;
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
