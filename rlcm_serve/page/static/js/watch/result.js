/** The place of the answer: it is kept from the start, and says how far the answer can be trusted. */

import { h, replace } from "../dom.js";
import { writeFragment } from "../fragment.js";
import { answerText } from "../math.js";
import { badge } from "./badge.js";
import { pendingVerdict, possibleVerdicts, verdictOf } from "./trust-state.js";

/**
 * @typedef {import("./run.js").Run} Run
 * @typedef {import("./run.js").Start} Start
 * @typedef {import("./run.js").Solution} Solution
 * @typedef {import("./trust-state.js").Verdict} Verdict
 * @typedef {import("../ask/question.js").Question} Question
 *
 * @typedef {object} Place
 * @property {HTMLElement} element
 * @property {HTMLElement} beside where the vote is shown
 * @property {(start: Start) => void} begin says what will be promised
 * @property {(run: Run) => { heading: HTMLElement, spoken: string }} finish
 * @property {() => void} cut no answer will come
 */

/** Characters of an answer that is written in the largest letters. */
const SHORT = 12;
/** And of one that is still larger than the text. */
const MEDIUM = 40;

/**
 * @param {Question} question
 * @returns {Place}
 */
export function answerPlace(question) {
  // Unseen, in the same cell: the tallest keeps the room that the answer will need, at any width.
  const room = possibleVerdicts(question).map((one) => verdict(one, ["0"], { covers: "#", of: "room" }).element);
  let shown = verdict(pendingVerdict(question, null), null);
  const stack = h("div", { class: "verdicts" }, room, shown.element);
  const beside = h("div", { class: "outcome-vote" });
  const element = h("section", { class: "outcome", "data-state": "pending", "aria-label": "The answer" }, stack, beside);

  /** @param {ReturnType<typeof verdict>} next @param {string} state */
  function show(next, state) {
    shown.element.replaceWith(next.element);
    shown = next;
    element.dataset.state = state;
  }

  return {
    element,
    beside,
    begin: (start) => show(verdict(pendingVerdict(question, start), null), "pending"),
    finish({ start, solution }) {
      if (!start || !solution) throw new Error("the question is not answered yet");
      const found = verdictOf(question, start, solution);
      const { guarantee, answer } = solution;
      const covers = guarantee ? writeFragment("trust", { id: guarantee.certificate, alpha: guarantee.alpha_certified }) : "";
      show(verdict(found, answer === null ? [] : answerText(answer), { covers, length: answer?.length }), found.state);
      element.classList.add("result");
      return { heading: shown.heading, spoken: `${found.label}. ${answer === null ? "" : `Answer: ${answer}. `}${found.claim}` };
    },
    cut() {
      if (element.dataset.state !== "pending") return;
      element.hidden = true;
    },
  };
}

/**
 * @param {Verdict} found
 * @param {(Node | string)[] | null} answer none if the service abstains; null if it is not known yet
 * @param {{ covers?: string, length?: number, of?: "result" | "room" }} [how] address of what the promise covers;
 *   characters of the answer; what it is a part of: a "room" is never seen
 */
function verdict({ state, label, claim }, answer, { covers, length = 1, of = "result" } = {}) {
  const heading = h("h2", { tabindex: -1, class: `${of}-title` }, label);
  const size = length <= SHORT ? "short" : length <= MEDIUM ? "medium" : "long";
  // What scrolls must be reached by keyboard.
  const reached = size === "long" && { tabindex: 0, role: "region", "aria-label": "The whole answer" };
  const value = h("p", { class: `${of}-value`, "data-length": size, ...reached });
  if (answer === null) replace(value, h("span", { class: "result-wait", "aria-hidden": "true" }, "…"));
  else if (answer.length) replace(value, answer);
  else replace(value, "no answer");
  const element = h(
    "div",
    { class: `verdict ${of}-verdict`, "data-state": state, "aria-hidden": of === "room" && "true" },
    badge(state),
    heading,
    value,
    h("p", { class: of === "room" ? "room-promise" : "promise" }, claim, covers && [" ", h("a", { href: covers }, "What the promise covers")]),
  );
  return { element, heading };
}

