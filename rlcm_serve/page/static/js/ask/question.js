/** A question with its settings, and how it is written into the address and sent. */

import { writeFragment } from "../fragment.js";
import { RISKS } from "../risks.js";

/**
 * @typedef {import("../risks.js").Risk} Risk
 * @typedef {"confidence" | "majority"} Vote
 * @typedef {object} Question
 * @property {string} problem
 * @property {number} alpha in (0, 1)
 * @property {number} n samples, 1 to 64
 * @property {Risk} risk
 * @property {Vote} vote
 * @property {string} kind of the question, as the certificates name kinds; "" for none
 * @property {"error" | "full_budget"} on_infeasible where nothing keeps that risk: refuse, or think to the
 *   end without a guarantee
 */

export const MOST_SAMPLES = 64;

/** @type {Question} */
export const DEFAULTS = { problem: "", alpha: 0.1, n: 4, risk: "selective", vote: "confidence", kind: "", on_infeasible: "error" };

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
    risk: Object.hasOwn(RISKS, risk) ? /** @type {Risk} */ (risk) : DEFAULTS.risk,
    vote: params.get("vote") === "majority" ? "majority" : DEFAULTS.vote,
    kind: params.get("kind") ?? DEFAULTS.kind,
    on_infeasible: params.get("on_infeasible") === "full_budget" ? "full_budget" : DEFAULTS.on_infeasible,
  };
}

/**
 * @param {Question} question
 * @returns {string} the fragment by which it can be shared
 */
export function fragmentOf({ problem, kind, on_infeasible, ...settings }) {
  const refused = on_infeasible === DEFAULTS.on_infeasible;
  return writeFragment("ask", { problem: problem || null, ...settings, kind: kind || null, on_infeasible: refused ? null : on_infeasible });
}

/**
 * @param {Question} question
 * @returns {object} what `/solve` is sent
 */
export function requestOf({ kind, ...question }) {
  return { ...question, ...(kind && { kind }), stream: true, stream_tokens: true };
}
