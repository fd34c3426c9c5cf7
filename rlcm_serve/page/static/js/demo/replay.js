/** What each level's rule does on recorded questions: where it stops, and what comes of it. */

import { answersAtEnd, findExit } from "../watch/rule.js";

/**
 * @typedef {import("../watch/run.js").Policy} Policy
 *
 * @typedef {object} Recorded one question at full budget; the last reading is the final one
 * @property {string | null} question
 * @property {number[]} tokens at each reading
 * @property {number[]} confidence
 * @property {number[]} answer_tokens
 * @property {string} right of each reading, "1" if its answer is right, "0" if it is wrong, "-" if it cannot be read
 *
 * @typedef {object} Measured on the whole series: wrong among the answers, with its 95% interval
 * @property {number} risk
 * @property {number} low
 * @property {number} high
 *
 * @typedef {{ alpha: number, policy: Policy, measured: Measured | null }} Level
 *
 * @typedef {object} Demo what `GET page/demo` gives
 * @property {string} certificate
 * @property {number} delta
 * @property {boolean} on_test
 * @property {number} n_problems of the whole series
 * @property {Level[]} levels certified, by rising alpha
 * @property {Recorded[]} questions
 *
 * @typedef {"right" | "wrong" | "abstained"} Outcome
 *
 * @typedef {object} Replayed
 * @property {number} stop place of the reading at which it stops
 * @property {"high" | "low" | "end"} exit
 * @property {Outcome} outcome
 * @property {number} tokens thinking and answer
 *
 * @typedef {object} Totals
 * @property {number} wrong
 * @property {number} answered
 * @property {number} tokensShare of what the full budget takes
 */

/**
 * What comes of giving the answer at a reading. One that cannot be read is none.
 *
 * @param {Recorded} recorded
 * @param {number} at place of the reading
 * @returns {Outcome}
 */
export function outcomeAt({ right }, at) {
  if (right[at] === "-") return "abstained";
  return right[at] === "1" ? "right" : "wrong";
}

/**
 * @param {Policy} policy
 * @param {Recorded} recorded
 * @returns {Replayed}
 */
export function replayed(policy, recorded) {
  const { tokens, confidence, answer_tokens } = recorded;
  const end = tokens.length - 1;
  const found = findExit(policy, tokens.slice(0, end), confidence.slice(0, end));
  const stop = found ? tokens.indexOf(found.tokens) : end;
  const exit = found?.exit ?? "end";
  const answers = {
    high: true,
    low: Boolean(policy.answer_on_low),
    end: answersAtEnd(policy, confidence),
  }[exit];
  const outcome = answers ? outcomeAt(recorded, stop) : "abstained";
  return { stop, exit, outcome, tokens: (tokens[stop] ?? 0) + (answer_tokens[stop] ?? 0) };
}

/**
 * @param {Replayed[]} ended each question under one level
 * @param {Recorded[]} questions
 * @returns {Totals}
 */
export function totals(ended, questions) {
  const of = (/** @type {Outcome} */ outcome) => ended.filter((one) => one.outcome === outcome).length;
  const whole = questions.reduce((sum, one) => sum + (one.tokens.at(-1) ?? 0) + (one.answer_tokens.at(-1) ?? 0), 0);
  const spent = ended.reduce((sum, one) => sum + one.tokens, 0);
  return { wrong: of("wrong"), answered: ended.length - of("abstained"), tokensShare: whole ? spent / whole : 0 };
}

/**
 * The question that shows best what a level changes: the one that ends in the most ways.
 *
 * @param {Replayed[][]} byLevel each question's end, by level
 * @returns {number} its place
 */
export function tellingQuestion(byLevel) {
  const ways = (byLevel[0] ?? []).map((_, at) => {
    const ends = byLevel.map((ended) => ended[at]);
    const outcomes = new Set(ends.map((one) => one?.outcome));
    const spent = ends.map((one) => one?.tokens ?? 0);
    const slide = 1 - Math.min(...spent) / Math.max(...spent, 1);
    return new Set(spent).size + 2 * outcomes.size + 4 * slide - (outcomes.has("wrong") ? 1 : 0);
  });
  return ways.indexOf(Math.max(...ways));
}
