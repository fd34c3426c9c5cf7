/** How far an answer can be trusted: one of a few states, and what is said of each in one breath. */

import { measured, percent, sentence } from "../format.js";
import { endedUnread, mayAnswer } from "./rule.js";

/**
 * @typedef {import("./run.js").Start} Start
 * @typedef {import("./run.js").Solution} Solution
 * @typedef {import("../ask/question.js").Question} Question
 *
 * @typedef {"guaranteed" | "weak" | "none" | "unfamiliar" | "withdrawn" | "abstained"} State
 *
 * @typedef {object} Verdict
 * @property {State | "pending"} state
 * @property {string} label of the state
 * @property {string} claim what is promised, or why nothing is: a sentence or two
 */

/** The least share of the vote that is no weak vote. */
export const CLEAR_SHARE = 0.6;

/** @type {Record<State | "pending", string>} */
export const LABELS = {
  pending: "Thinking …",
  guaranteed: "Covered by the promise",
  weak: "Weak vote: treat it as a guess",
  none: "No promise covers this answer",
  unfamiliar: "Unlike the tested questions",
  withdrawn: "The promise was withdrawn",
  abstained: "Abstained",
};

/** @type {Record<string, (question: Question) => string>} */
const UNCOVERED = {
  uncertified: () => "No certificate in use here covers these settings, so nothing is promised.",
  not_covered: () => "These settings, or this engine, differ from the tested ones, so nothing is promised.",
  infeasible: ({ alpha }) => `A risk of ${percent(alpha)} could not be certified with this data, so the model thought to its end, and nothing is promised.`,
  unfamiliar: () => "The promise holds for questions like those it was tested on. This one does not look like them, so do not trust the answer, however confident the model is.",
  withdrawn: () => "The certificate for this question is no longer in use, or its promise was withdrawn. So nothing is promised for this answer.",
  asked_before: () => "The promise is for first asks, and this may not be one: it was asked before without an answer, is being answered right now, or the service cannot tell. Questions without an answer are harder than others.",
};

/**
 * Whether a question was read to be unlike the tested ones. One that was not read has the same code.
 *
 * @param {{ no_guarantee_code?: string | null, familiarity?: number | null }} given
 */
export function isUnlike({ no_guarantee_code: code, familiarity }) {
  return code === "unfamiliar" && typeof familiarity === "number";
}

/**
 * The state of an answered question.
 *
 * @param {Question} question
 * @param {Solution} solution
 * @returns {State}
 */
export function stateOf({ n }, solution) {
  const { abstained, guarantee, no_guarantee_code: code, confidence } = solution;
  if (abstained) return "abstained";
  if (isUnlike(solution)) return "unfamiliar";
  if (!guarantee) return code === "withdrawn" ? code : "none";
  return isWeak(n, confidence) ? "weak" : "guaranteed";
}

/**
 * @param {number} n samples
 * @param {number | null} share of the vote that the answer won
 */
export function isWeak(n, share) {
  return n > 1 && share !== null && share < CLEAR_SHARE;
}

/**
 * @param {Question} question
 * @param {Start} start
 * @param {Solution} solution
 * @returns {Verdict}
 */
export function verdictOf(question, start, solution) {
  const state = stateOf(question, solution);
  return { state, label: LABELS[state], claim: claimOf(state, question, start, solution) };
}

/**
 * What is said while the model thinks: what will be promised of an answer, if one comes.
 *
 * @param {Question} question
 * @param {Start | null} start
 * @returns {Verdict}
 */
export function pendingVerdict(question, start) {
  if (!start) return { state: "pending", label: LABELS.pending, claim: "" };
  const claim = start.guarantee ? start.guarantee.statement : uncovered(question, start);
  return { state: "pending", label: LABELS.pending, claim };
}

/**
 * Every verdict that a question may get, so that room for the longest can be kept.
 *
 * @param {Question} question
 * @returns {Verdict[]}
 */
export function possibleVerdicts(question) {
  const covered = `${usualStatement(question)} ${SINGLE}`;
  const others = Object.values(UNCOVERED).map((one) => one(question));
  const abstained = `${abstainedBecause(question.n > 1 ? "vote" : "natural")} ${COUNTED[question.risk]} ${AGAIN}`;
  return [
    ...[covered, ...others].map((claim) => ({ state: /** @type {State} */ ("guaranteed"), label: LABELS.weak, claim })),
    ...(question.n > 1 ? [{ state: /** @type {State} */ ("weak"), label: LABELS.weak, claim: weakWords(0.5) }] : []),
    { state: "abstained", label: LABELS.abstained, claim: abstained },
  ];
}

const SINGLE = "Any single answer can still be wrong.";
const AGAIN = "If you ask again, nothing is promised.";

/** What an abstention counts as, by the risk. @type {Record<import("../risks.js").Risk, string>} */
const COUNTED = {
  selective: "It does not count as wrong.",
  error: "It counts as wrong.",
  regret: "It counts as lost if the full budget had been right.",
};

/** As long as the service's statement usually is; it is never shown. @param {Question} question */
function usualStatement({ alpha, kind }) {
  const among = kind ? ` of kind ‘${kind}’` : "";
  return `Of the questions${among} that this policy answers, at most ${percent(alpha)} get a wrong answer on average. This covers first asks of questions like the calibration’s, with 90% confidence over the draw of 9999 calibration problems, whichever alpha is chosen.`;
}

/**
 * @param {State} state
 * @param {Question} question
 * @param {Start} start
 * @param {Solution} solution
 */
function claimOf(state, question, start, solution) {
  const { guarantee, confidence } = solution;
  if (state === "abstained") return [whyAbstained(start, solution), ...(guarantee ? [COUNTED[question.risk], AGAIN] : [])].join(" ");
  if (state === "weak") return weakWords(confidence ?? 0);
  if (guarantee) return `${guarantee.statement} ${SINGLE}`;
  const split = isWeak(question.n, confidence) ? ` The samples disagree too: it won ${measured(confidence ?? 0)} of the vote.` : "";
  return `${uncovered(question, solution)}${split}`;
}

/**
 * @param {Question} question
 * @param {Pick<Solution, "no_guarantee_code" | "no_guarantee_reason" | "familiarity">} given without a guarantee
 */
function uncovered(question, given) {
  const { no_guarantee_code: code, no_guarantee_reason: reason } = given;
  const words = code === "unfamiliar" && !isUnlike(given) ? null : UNCOVERED[code ?? ""];
  return words ? words(question) : sentence(reason || "nothing is promised for this answer");
}

/** @param {number} share */
function weakWords(share) {
  return `The samples disagree: this answer won only ${measured(share)} of the vote. The promise is an average over all answers, and those with so little agreement are the likeliest to be wrong.`;
}

/**
 * @param {Start} start
 * @param {Solution} solution
 */
function whyAbstained({ policy, samples: n }, solution) {
  const { no_guarantee_code: code, samples, exit } = solution;
  const unlike = isUnlike(solution);
  if (code === "unfamiliar" && exit === null && samples.every((one) => one.exit === "cancelled")) return abstainedBecause(unlike ? "unfamiliar" : "unread");
  return `${becauseOf(policy, n, samples, exit)}${unlike ? " It is also unlike the tested questions." : ""}`;
}

/**
 * Why a question that the model thought about has no answer.
 *
 * @param {Start["policy"]} policy
 * @param {number} n
 * @param {Solution["samples"]} samples
 * @param {Solution["exit"]} exit
 */
function becauseOf(policy, n, samples, exit) {
  if (!policy) return abstainedBecause("infeasible");
  if (samples.every((one) => one.answer === null) && samples.some((one) => mayAnswer(policy, one))) {
    return abstainedBecause("unreadable");
  }
  if (endedUnread(samples)) return abstainedBecause("blind");
  if (n > 1) return abstainedBecause(samples.some((one) => one.answer !== null) ? "vote" : "samples");
  return abstainedBecause(exit === "low" ? "low" : "natural");
}

/** @param {"unfamiliar" | "unread" | "infeasible" | "unreadable" | "blind" | "vote" | "samples" | "low" | "natural"} why */
function abstainedBecause(why) {
  return {
    unfamiliar: "The question is unlike the tested ones, so the model did not answer it.",
    unread: "The engine did not read whether the question is like the tested ones, so the model did not answer it.",
    infeasible: "That risk could not be certified with this data, so the model did not think at all.",
    unreadable: "The model ended, but no answer could be read in what it wrote.",
    blind: "The model ended, but its confidence could not be read, so the service abstains instead of guessing.",
    vote: "No answer won enough of the vote, so the service says nothing instead of guessing.",
    samples: "No sample was sure enough to answer, so the service says nothing instead of guessing.",
    low: "The confidence stayed low, so the service says nothing instead of guessing.",
    natural: "The model was not sure enough at its end, so the service says nothing instead of guessing.",
  }[why];
}
