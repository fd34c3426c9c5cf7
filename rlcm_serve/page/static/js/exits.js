/** Why a sample stopped thinking: each reason with a shape, a word and a colour of its own. */

/**
 * @typedef {"high" | "low" | "natural" | "budget" | "cancelled"} ExitName
 * @typedef {object} Exit
 * @property {string} mark a shape that can be told apart without its colour
 * @property {string} word what it says of itself, in lower case
 * @property {string} role colour, a role of the theme
 * @property {string} meaning one sentence
 */

/** @type {Record<ExitName, Exit>} */
export const EXITS = {
  high: {
    mark: "▲",
    word: "stopped early",
    role: "blue",
    meaning: "Its confidence reached the upper threshold λ2.",
  },
  low: {
    mark: "▼",
    word: "low confidence",
    role: "orange",
    meaning: "Its confidence stayed at or below the lower threshold λ1.",
  },
  natural: {
    mark: "●",
    word: "finished",
    role: "green",
    meaning: "The model ended its thinking by itself.",
  },
  budget: {
    mark: "■",
    word: "out of budget",
    role: "brown",
    meaning: "It used all the tokens it was allowed.",
  },
  cancelled: {
    mark: "✕",
    word: "no longer needed",
    role: "muted",
    meaning: "One answer was far enough ahead, or its own could no longer change the result.",
  },
};
