/** The outcome: the answer or the abstention, what α did, and the promise it is given under. */

import { h } from "../dom.js";
import { count, number, percent, sentence, tokens } from "../format.js";
import { writeFragment } from "../fragment.js";
import { generatedOf } from "../generated.js";
import { answerText } from "../math.js";
import { VERIFIED } from "../verified.js";
import { explain, promised } from "./explain.js";

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
        ? h("p", { class: "result-value" }, h("span", { "aria-hidden": "true" }, "∅ "), "abstained")
        : h("p", { class: "result-value" }, answerText(solution.answer)),
    ),
    h("div", { class: "result-story" }, h("p", { class: "result-told" }, told), promise(question, solution), spending(solution)),
  );
  return { element, heading, spoken: `${title}${solution.answer === null ? "" : `: ${solution.answer}`}. ${told}` };
}

/**
 * @param {Question} question
 * @param {Solution} solution
 */
function promise(question, { abstained, guarantee, no_guarantee_reason }) {
  if (!guarantee) {
    return h("p", { class: "promise none" }, h("b", null, "Without a guarantee. "), sentence(no_guarantee_reason ?? ""));
  }
  const { alpha_certified: alpha, delta, certificate } = guarantee;
  const kept = Math.floor((1 - delta) * 100 + 1e-9);
  const again = abstained ? " If you ask this question again, its answer has no guarantee." : "";
  const chosen = guarantee.promise === "pointwise" ? " It assumes that α was chosen before looking at any result." : "";
  return h(
    "p",
    { class: "promise" },
    h("b", null, "Guarantee. "),
    `${promised(question, guarantee)} Of 100 such calibrations, about ${kept} or more keep their guarantee.${chosen}${again} ${VERIFIED[guarantee.verified]} `,
    h("a", { href: writeFragment("trust", { id: certificate, alpha }) }, `What it covers: certificate ${certificate}`),
  );
}

/** @param {Solution} solution */
function spending({ usage, saved }) {
  const spent = generatedOf(usage, "_tokens");
  const figures = h("dl", { class: "spending" }, figure(tokens(spent), "generated for this question"));
  if (!saved) return figures;
  figures.append(figure(tokens(saved.full_budget_tokens), "average for such questions without early stopping"));
  const share = saved.full_budget_tokens ? Math.abs(saved.tokens) / saved.full_budget_tokens : 0;
  const words = saved.tokens >= 0 ? "fewer than that average" : "more than that average";
  figures.append(figure(`${number(Math.abs(saved.tokens))} (${percent(share, 0)})`, words));
  if (saved.by_cancelling_tokens >= 1) {
    figures.append(figure(`about ${count(saved.by_cancelling_tokens, "token")}`, "saved by cancelling samples that were no longer needed"));
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
