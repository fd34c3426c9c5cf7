/** The risks that can be kept: what each counts, in words, in the order in which they are shown. */

import { isOne } from "./format.js";

/**
 * @typedef {"selective" | "error" | "regret"} Risk
 *
 * @typedef {object} RiskWording
 * @property {string} title
 * @property {string} what it means for who asks, in a sentence
 * @property {string} counts what α is a share of
 * @property {string} promise what follows "at most 10%"
 * @property {(often: string) => string} often what follows "at most", given "1 of 10"
 * @property {string} realised what follows the share that was measured
 * @property {string} measured the same as the head of a column
 * @property {(often: string) => string} accepted the sentence of who asked for it
 */

/** @type {Record<Risk, RiskWording>} */
export const RISKS = {
  selective: {
    title: "Wrong answers among the answers given",
    what: "The service may abstain. Of the answers it gives, at most this share is wrong.",
    counts: "the share of the given answers that are wrong",
    promise: "of the answers it gives are wrong",
    often: (often) => `${often} answers it gives ${isOne(often) ? "is" : "are"} wrong`,
    realised: "of the given answers were wrong",
    measured: "wrong, of the given answers",
    accepted: (often) => `You accepted a wrong answer in ${often} answered questions.`,
  },
  error: {
    title: "Wrong answers among all questions",
    what: "The service answers every question, unless no answer can be read, which counts as wrong. The model and its stopping rules limit how small this share can be.",
    counts: "the share of all questions that get a wrong answer",
    promise: "of all questions get a wrong answer",
    often: (often) => `${often} questions ${isOne(often) ? "gets" : "get"} a wrong answer`,
    realised: "of all questions got a wrong answer",
    measured: "wrong, of all questions",
    accepted: (often) => `You accepted a wrong answer in ${often} questions.`,
  },
  regret: {
    title: "Answers lost by stopping early",
    what: "The service answers every question, unless no answer can be read. At most this share of questions loses the right answer of the full budget, because the model stopped early.",
    counts: "the share of all questions that the full budget answers correctly and early stopping does not",
    promise: "of all questions lose their right answer to early stopping",
    often: (often) => `${often} questions ${isOne(often) ? "loses" : "lose"} a right answer to early stopping`,
    realised: "of all questions lost their right answer",
    measured: "lost, of all questions",
    accepted: (often) => `You accepted that stopping early may cost the right answer in ${often} questions.`,
  },
};

const ORDER = Object.keys(RISKS);

/**
 * For sorting: risks of one's own come last.
 *
 * @param {string} a
 * @param {string} b
 */
export function byRisk(a, b) {
  const [first, second] = [a, b].map((risk) => (ORDER.includes(risk) ? ORDER.indexOf(risk) : ORDER.length));
  return Number(first) - Number(second);
}
