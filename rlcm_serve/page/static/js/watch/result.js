/** The outcome: the answer or the abstention, what α did, and the promise it is given under. */

import { h } from "../dom.js";
import { count, number, percent, tokens } from "../format.js";
import { writeFragment } from "../fragment.js";
import { answerText } from "../math.js";
import { explain } from "./explain.js";

/**
 * @typedef {import("./run.js").Run} Run
 * @typedef {import("./run.js").Solution} Solution
 * @typedef {import("../ask/question.js").Question} Question
 */

/**
 * @param {Question} question
 * @param {Run} run one that is done
 * @returns {{ element: HTMLElement, heading: HTMLElement, spoken: string }}
 */
export function resultPanel(question, run) {
  const { start, solution } = run;
  if (!start || !solution) throw new Error("the question is not answered yet");
  const told = explain(question, start, solution).join(" ");
  const title = solution.abstained ? "No answer" : "Answer";
  const heading = h("h2", { tabindex: -1, class: "result-title" }, title);
  const element = h(
    "section",
    { class: `result ${solution.abstained ? "abstained" : "answered"}` },
    h(
      "div",
      { class: "result-answer" },
      heading,
      solution.answer === null
        ? h("p", { class: "result-value" }, h("span", { "aria-hidden": "true" }, "∅ "), "declined")
        : h("p", { class: "result-value" }, answerText(solution.answer)),
    ),
    h("div", { class: "result-story" }, h("p", { class: "result-told" }, told), promise(solution), spending(solution)),
  );
  return { element, heading, spoken: `${title}${solution.answer === null ? "" : `: ${solution.answer}`}. ${told}` };
}

/** @param {Solution} solution */
function promise({ guarantee, no_guarantee_reason }) {
  if (!guarantee) {
    return h("p", { class: "promise none" }, h("b", null, "Without a guarantee. "), no_guarantee_reason ?? "");
  }
  // After the promise the service says what it does not cover; the certificate's page has that in full.
  const promised = guarantee.statement.split("; this does not cover")[0] ?? "";
  return h(
    "p",
    { class: "promise" },
    h("b", null, "The promise. "),
    `${promised.trim()}. `,
    h("a", { href: writeFragment("trust", { id: guarantee.certificate }) }, `What it covers and what not: certificate ${guarantee.certificate}`),
  );
}

/** @param {Solution} solution */
function spending({ usage, saved }) {
  const generated = ["reasoning_tokens", "answer_tokens", "discarded_tokens", "cancelled_tokens"];
  const spent = generated.reduce((sum, kind) => sum + (usage[kind] ?? 0), 0);
  const figures = h("dl", { class: "spending" }, figure(tokens(spent), "generated for this question"));
  if (!saved) return figures;
  figures.append(figure(tokens(saved.full_budget_tokens), "such questions take on average without stopping early"));
  const share = saved.full_budget_tokens ? Math.abs(saved.tokens) / saved.full_budget_tokens : 0;
  const words = saved.tokens >= 0 ? "fewer than that average" : "more than that average";
  figures.append(figure(`${number(Math.abs(saved.tokens))} (${percent(share, 0)})`, words));
  if (saved.by_cancelling_tokens >= 1) {
    figures.append(figure(`about ${count(saved.by_cancelling_tokens, "token")}`, "of them by ending samples that were not needed"));
  }
  return figures;
}

/**
 * @param {string} value
 * @param {string} meaning
 */
function figure(value, meaning) {
  return h("div", null, h("dt", null, value), h("dd", null, meaning));
}
