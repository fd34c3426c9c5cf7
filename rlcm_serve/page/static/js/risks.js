/** The risks that can be kept: what each counts, in words, in the order in which they are shown. */

/**
 * @typedef {"selective" | "error" | "regret"} Risk
 *
 * @typedef {object} RiskWords
 * @property {string} title
 * @property {string} what it means for who asks, in a sentence
 * @property {string} counts what α is a share of
 * @property {string} promise what follows "at most 10%"
 * @property {string} often what follows "at most 1 of 10"
 * @property {string} realised what follows the share that came of it
 * @property {(often: string) => string} accepted the sentence of who asked for it
 */

/** @type {Record<Risk, RiskWords>} */
export const RISKS = {
  selective: {
    title: "Wrong answers, of those it gives",
    what: "It may decline to answer, and what it does answer is wrong at most this often.",
    counts: "of the answers it gives, the share that is wrong",
    promise: "of the answers it gives are wrong",
    often: "answers it gives may be wrong",
    realised: "wrong, of the answers given",
    accepted: (often) => `You accepted being wrong in ${often} answered questions.`,
  },
  error: {
    title: "Wrong answers, of all questions",
    what: "It always answers. It cannot be wrong less often than the model itself.",
    counts: "of all questions, the share that is answered wrong",
    promise: "of all questions are answered wrong",
    often: "questions may get a wrong answer",
    realised: "wrong, of all questions",
    accepted: (often) => `You accepted a wrong answer in ${often} questions.`,
  },
  regret: {
    title: "Answers lost by stopping early",
    what: "Compared with letting the model think to its end.",
    counts: "of all questions, the share that thinking to the end would have got right and stopping early does not",
    promise: "of all questions are lost by stopping early",
    often: "questions may lose a right answer by stopping early",
    realised: "lost, of all questions",
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
