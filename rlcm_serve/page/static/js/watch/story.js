/** What α did to a question, what it cost, and what the promise means: below the curves. */

import { h, svg } from "../dom.js";
import { allBut, atMost, count, measured, mostOf, number, percent, sentence, tokens } from "../format.js";
import { writeFragment } from "../fragment.js";
import { generatedOf } from "../generated.js";
import { limitOf } from "../trust/wording.js";
import { VERIFIED } from "../verified.js";
import { explain } from "./explain.js";

/**
 * @typedef {import("./run.js").Run} Run
 * @typedef {import("./run.js").Solution} Solution
 * @typedef {import("./run.js").Guarantee} Guarantee
 * @typedef {import("../ask/question.js").Question} Question
 */

/** Calibrations in the picture of δ. */
const PICTURED = 20;

/**
 * @param {Question} question
 * @param {Run} run one that is done
 * @returns {HTMLElement}
 */
export function story(question, { start, solution, samples }) {
  if (!start || !solution) throw new Error("the question is not answered yet");
  return h(
    "section",
    { class: "story", "aria-labelledby": "story-title" },
    h(
      "div",
      null,
      h("h2", { id: "story-title" }, `What α = ${percent(question.alpha)} did here`),
      h("p", { class: "result-told" }, explain(question, start, solution, samples).join(" ")),
      spending(solution),
    ),
    solution.guarantee ? sureness(solution.guarantee) : reason(solution),
  );
}

/**
 * How sure the promise itself is: δ, apart from α, with a picture.
 *
 * @param {Guarantee} guarantee
 */
function sureness({ delta, promise, covers, verified, certificate, alpha_certified: alpha }) {
  const chosen = promise === "pointwise" ? " It assumes that α was chosen before looking at any result." : "";
  return h(
    "div",
    { class: "sureness" },
    h("h2", null, "How sure is the promise itself? (δ)"),
    pictureOf(delta),
    h(
      "p",
      null,
      `The rule was chosen by a test on questions with known answers. Such a test can be unlucky: if it were repeated with fresh questions, at least ${allBut(delta)} of the rules would keep their promise, and at most ${atMost(delta)} would not.${limitOf(covers)}${chosen}`,
    ),
    h("p", { class: "hint" }, `${VERIFIED[verified]} `, h("a", { href: writeFragment("trust", { id: certificate, alpha }) }, `Certificate ${certificate}`)),
  );
}

/** @param {number} delta */
function pictureOf(delta) {
  const broken = Math.ceil(delta * PICTURED - 1e-9);
  const label = `Of such tests, ${mostOf(delta, PICTURED)} give a rule that breaks its promise.`;
  const one = (/** @type {number} */ at) => {
    const bad = at >= PICTURED - broken;
    const x = 12 + at * 20;
    return bad
      ? svg("path", { class: "test-broken", d: `M${x - 5} 5l10 10m0-10l-10 10` })
      : svg("path", { class: "test-kept", d: `M${x} 3l7 7l-7 7l-7-7z` });
  };
  return h(
    "figure",
    { class: "tests" },
    svg("svg", { viewBox: `0 0 ${PICTURED * 20 + 4} 20`, role: "img", "aria-label": label }, Array.from({ length: PICTURED }, (_, at) => one(at))),
    h("figcaption", { class: "hint" }, `◆ a test whose rule keeps its promise, ✕ one whose rule does not: ${mostOf(delta, PICTURED)}`),
  );
}

/** @param {Solution} solution one without a guarantee */
function reason({ no_guarantee_code: code, no_guarantee_reason: why, familiarity: share }) {
  const rare = code === "unfamiliar" && share ? `At most 1 of ${number(roundedDown(1 / share))} questions like the tested ones looks as unusual as this one.` : "";
  return h("div", { class: "sureness" }, h("h2", null, "Why nothing is promised"), h("p", null, rare || sentence(why ?? "")));
}

/** To two digits: 2001 -> 2000. @param {number} value */
function roundedDown(value) {
  const unit = 10 ** Math.max(0, Math.floor(Math.log10(value)) - 1);
  return Math.floor(value / unit + 1e-9) * unit;
}

/** @param {Solution} solution */
function spending({ usage, saved, abstained }) {
  const spent = generatedOf(usage, "_tokens");
  // A question that gets no answer saves nothing: what it spent was spent for nothing.
  if (abstained) return h("dl", { class: "spending" }, figure(tokens(spent), "spent on this question, without an answer"));
  const figures = h("dl", { class: "spending" }, figure(tokens(spent), "generated for this question, its answer included"));
  if (!saved) return figures;
  figures.append(figure(tokens(saved.full_budget_tokens), "average for such questions without early stopping"));
  const share = saved.full_budget_tokens ? Math.abs(saved.tokens) / saved.full_budget_tokens : 0;
  const words = saved.tokens >= 0 ? "fewer than that average" : "more than that average";
  figures.append(figure(`${number(Math.abs(saved.tokens))} (${measured(share)})`, words));
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
