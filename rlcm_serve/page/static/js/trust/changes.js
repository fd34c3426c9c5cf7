/** What differs between two certificates, in sentences. */

import { atMost, count, list, measured, number, percent, threshold, within } from "../format.js";
import { partName } from "./fingerprint.js";
import { kindWords, riskWording, samplesWords, wholeDelta } from "./wording.js";

/** @typedef {import("./report-data.js").ReportData} ReportData */
/** @typedef {import("./report-data.js").Level} Level */

/** Parts of a fingerprint that other sentences speak of. */
const SAID = new Set(["samples", "vote", "max_tokens"]);

/** Further parts of a stopping rule, with the fields of a policy that say them. @type {Record<string, string[]>} */
const FURTHER = {
  "how the threshold λ1 rises": ["low_rise", "low_slope", "low_shift"],
  "how long confidence must stay low": ["patience"],
  "what follows low confidence": ["answer_on_low"],
  "the answer threshold λa": ["lambda_answer"],
  "the share of the vote that a winner needs": ["lambda_vote"],
  "the lead that ends a vote": ["lambda_stop"],
  "how confidence is smoothed": ["smoothing"],
};

/**
 * @param {ReportData} a
 * @param {ReportData} b
 * @param {number} alpha the level whose figures are compared
 * @returns {string[]} the weightiest first
 */
export function changesOf(a, b, alpha) {
  return [...promiseChanges(a, b), ...levelChanges(a, b), ...figureChanges(a, b, alpha), ...policyChanges(a, b, alpha), ...setupChanges(a, b)];
}

/** @param {ReportData} a @param {ReportData} b */
function promiseChanges(a, b) {
  const said = [];
  if (a.risk !== b.risk) said.push(`They promise different things. A bounds ${riskWording(a.risk).counts}; B bounds ${riskWording(b.risk).counts}.`);
  if (kindWords(a) !== kindWords(b)) said.push(`A is for ${kindOf(a)}, B for ${kindOf(b)}.`);
  if (a.n !== b.n || a.vote !== b.vote) said.push(`A answers with ${samplesWords(a)}, B with ${samplesWords(b)}.`);
  if (a.average !== b.average) said.push(a.average === "groups" ? "A counts every group of questions equally, B every question." : "A counts every question equally, B every group of questions.");
  if (wholeDelta(a) !== wholeDelta(b)) said.push(`The calibration may have failed with probability ${atMost(wholeDelta(a))} for A and ${atMost(wholeDelta(b))} for B (δ).`);
  if (a.promise !== b.promise) said.push(`${a.promise === "pointwise" ? "A" : "B"} is for one α that was chosen beforehand; ${a.promise === "pointwise" ? "B" : "A"} for all its levels at once.`);
  if (!a.joint !== !b.joint) said.push(`Only ${a.joint ? "A" : "B"} also bounds other shares or counts of questions, at once with its levels.`);
  return said;
}

/** @param {ReportData} report */
function kindOf({ kind }) {
  return kind?.name ? `questions of the kind “${kind.name}”` : "all kinds of questions";
}

/** @param {ReportData} a @param {ReportData} b */
function levelChanges(a, b) {
  const certified = (/** @type {ReportData} */ { levels }) => levels.filter((level) => level.certified).map(({ alpha }) => alpha);
  const [mine, other] = [certified(a), certified(b)];
  const only = (/** @type {number[]} */ these, /** @type {number[]} */ those) => these.filter((alpha) => !those.includes(alpha)).map(percent);
  const [onlyA, onlyB] = [only(mine, other), only(other, mine)];
  return [
    ...(onlyA.length ? [`Only A is certified at α = ${list(onlyA)}.`] : []),
    ...(onlyB.length ? [`Only B is certified at α = ${list(onlyB)}.`] : []),
  ];
}

/** @param {ReportData} report @param {number} alpha */
function certifiedAt({ levels }, alpha) {
  return levels.find((level) => level.alpha === alpha && level.certified) ?? null;
}

/** @param {ReportData} a @param {ReportData} b @param {number} alpha */
function figureChanges(a, b, alpha) {
  const [mine, other] = [certifiedAt(a, alpha), certifiedAt(b, alpha)];
  if (!mine || !other) return [];
  const both = mine.test && other.test;
  const [first, second] = both ? [mine.test, other.test] : [mine.calibration, other.calibration];
  if (!first || !second) return [];
  const at = `At α = ${percent(alpha)}${both ? "" : " on the calibration problems"}`;
  const said = [];
  if (a.risk === b.risk && first.risk !== null && second.risk !== null) {
    const apart = disjoint([first.risk_low, first.risk_high], [second.risk_low, second.risk_high]);
    const doubt = apart === null ? "" : apart ? " The intervals do not overlap." : " The intervals overlap: the difference may be chance.";
    said.push(`${at} the measured risk is ${within(first.risk, first.risk_low, first.risk_high)} for A and ${within(second.risk, second.risk_low, second.risk_high)} for B.${first.risk === second.risk ? "" : doubt}`);
  }
  const times = second.tokens / first.tokens;
  if (Math.abs(times - 1) >= 0.005) {
    const apart = disjoint([first.tokens_low, first.tokens_high], [second.tokens_low, second.tokens_high]);
    const more = times > 1 ? ["B", times] : ["A", 1 / times];
    const factor = Number(more[1]) >= 1.5 ? `${number(Number(more[1]), 1)} times the tokens` : `${measured(Number(more[1]) - 1)} more tokens`;
    said.push(`${at} ${more[0]} takes ${factor}: ${number(first.tokens)} per question for A, ${number(second.tokens)} for B.${apart === false ? " The intervals overlap: the difference may be chance." : ""}`);
  }
  if (Math.abs(first.share_answered - second.share_answered) >= 0.0005) said.push(`${at} A answers ${measured(first.share_answered)} of all questions, B ${measured(second.share_answered)}.`);
  return said;
}

/**
 * @param {(number | null)[]} one
 * @param {(number | null)[]} other
 * @returns {boolean | null} null where an interval is not known
 */
function disjoint([low = null, high = null], [from = null, to = null]) {
  if (low === null || high === null || from === null || to === null) return null;
  return high < from || to < low;
}

/** @param {ReportData} a @param {ReportData} b @param {number} alpha */
function policyChanges(a, b, alpha) {
  const [first, second] = [certifiedAt(a, alpha), certifiedAt(b, alpha)];
  if (!first || !second) return [];
  const at = `At α = ${percent(alpha)}`;
  const said = [];
  if (first.lambda_high !== second.lambda_high) {
    const stops = (/** @type {number | null} */ value) => (value === null ? "never stops early to answer" : `stops and answers at a confidence of ${threshold(value)}`);
    said.push(`${at} A ${stops(first.lambda_high)}, B ${stops(second.lambda_high)}.`);
  }
  if (first.lambda_low !== second.lambda_low) {
    const gives = (/** @type {number | null} */ value) => (value === null ? "never stops for low confidence" : `stops for low confidence at ${threshold(value)} or below`);
    said.push(`${at} A ${gives(first.lambda_low)}, B ${gives(second.lambda_low)}.`);
  }
  const [mine, other] = [first.policy ?? {}, second.policy ?? {}];
  const names = Object.entries(FURTHER).filter(([, fields]) => fields.some((field) => mine[field] !== other[field])).map(([name]) => name);
  if (names.length) said.push(`${at} they differ in ${list(names)}.`);
  return said.length || a.risk !== b.risk || a.n !== b.n ? said : [`${at} both have the same stopping rule.`];
}

/** @param {ReportData} a @param {ReportData} b */
function setupChanges(a, b) {
  const said = [];
  const [mine, other] = [a.calibration.n_problems, b.calibration.n_problems];
  said.push(mine === other ? `Both were calibrated on ${count(mine, "problem")}.` : `A was calibrated on ${count(mine, "problem")}, B on ${number(other)}.`);
  if (a.fingerprint && b.fingerprint) {
    const names = new Set([...Object.keys(a.fingerprint), ...Object.keys(b.fingerprint)]);
    const parts = [...names].filter((name) => !SAID.has(name) && a.fingerprint?.[name] !== b.fingerprint?.[name]);
    said.push(parts.length ? `Their engines differ in ${list(parts.map((name) => partName(name).toLowerCase()))}.` : "Both were fitted on the same engine.");
  }
  if (a.max_tokens !== b.max_tokens && a.max_tokens && b.max_tokens) said.push(`A may think for ${number(a.max_tokens)} tokens, B for ${number(b.max_tokens)}.`);
  if (a.created && b.created && a.created !== b.created) said.push(`${a.created > b.created ? "A" : "B"} is newer (A ${a.created}, B ${b.created}).`);
  return said;
}
