/** A question with its settings, and how it is written into the address and sent. */

import { writeFragment } from "../fragment.js";

/**
 * @typedef {"selective" | "error" | "regret"} Risk
 * @typedef {"confidence" | "majority"} Vote
 * @typedef {object} Question
 * @property {string} problem
 * @property {number} alpha in (0, 1)
 * @property {number} n samples, 1 to 64
 * @property {Risk} risk
 * @property {Vote} vote
 */

export const MOST_SAMPLES = 64;

/** @type {Question} */
export const DEFAULTS = { problem: "", alpha: 0.1, n: 4, risk: "selective", vote: "confidence" };

/** @type {Record<Risk, { name: string, bounds: string, often: string, what: string }>} */
export const RISKS = {
  selective: {
    name: "Wrong answers, of those it gives",
    bounds: "of the answers it gives may be wrong",
    often: "answers it gives may be wrong",
    what: "It may decline to answer, and what it does answer is wrong at most this often.",
  },
  error: {
    name: "Wrong answers, of all questions",
    bounds: "of all questions may get a wrong answer",
    often: "questions may get a wrong answer",
    what: "It always answers. It cannot be wrong less often than the model itself.",
  },
  regret: {
    name: "Answers lost by stopping early",
    bounds: "of all questions may lose a right answer by stopping early",
    often: "questions may lose a right answer by stopping early",
    what: "Compared with letting the model think to its end.",
  },
};

/**
 * What an address asks. Anything missing or impossible is as by default.
 *
 * @param {URLSearchParams} params
 * @returns {Question}
 */
export function questionOf(params) {
  const alpha = Number(params.get("alpha"));
  const n = Number(params.get("n"));
  const risk = params.get("risk") ?? "";
  return {
    problem: params.get("problem") ?? "",
    alpha: alpha > 0 && alpha < 1 ? alpha : DEFAULTS.alpha,
    n: Number.isInteger(n) && n >= 1 && n <= MOST_SAMPLES ? n : DEFAULTS.n,
    risk: risk in RISKS ? /** @type {Risk} */ (risk) : DEFAULTS.risk,
    vote: params.get("vote") === "majority" ? "majority" : DEFAULTS.vote,
  };
}

/**
 * @param {Question} question
 * @returns {string} the fragment by which it can be shared
 */
export function fragmentOf(question) {
  return writeFragment("ask", { ...question });
}

/**
 * @param {Question} question
 * @returns {object} what `/solve` is sent
 */
export function requestOf(question) {
  return { ...question, stream: true, stream_tokens: true };
}
