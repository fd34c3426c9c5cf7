/** The guarantee of a certificate at one level: a sentence, the rules, and the measured figures. */

import { h, replace, setText, uniqueId } from "../dom.js";
import { EXITS } from "../exits.js";
import { count, frequency, number, percent } from "../format.js";
import { figuresOf } from "./report-data.js";
import { guaranteeOf, jointlyOf, kindWords, riskWording, rulesOf, samePolicyOf, samplesWords, surenessOf } from "./wording.js";

/** @typedef {import("./report-data.js").ReportData} ReportData */
/** @typedef {import("./report-data.js").Level} Level */

/** @type {{ exit: null, text: string }} */
const REFUSED = {
  exit: null,
  text: "A question at this α is refused, unless the request allows the full budget or an abstention, both without a guarantee.",
};

/**
 * @param {ReportData} report
 * @param {(level: Level) => void} onLevel called when another level is chosen
 * @param {boolean} explain whether terms are explained here
 * @returns {{ element: HTMLElement, show: (level: Level) => void }}
 */
export function guaranteeSection(report, onLevel, explain) {
  const sentence = h("h2");
  const plain = h("p", { class: "plain" });
  const rules = h("ul", { class: "rules" });
  const facts = h("dl", { class: "facts" });
  const { element: levels, check } = levelChoice(report, onLevel);
  const element = h(
    "section",
    { class: "pledge" },
    h("div", { class: "pledge-words" }, badges(report), sentence, status(report), plain, levels, explain && h("p", { class: "term" }, surenessOf(report))),
    h(
      "div",
      { class: "pledge-does" },
      h("h3", null, "What happens to a question at this α"),
      explain && h("p", { class: "term" }, "Every few tokens a small probe inside the model estimates the probability that the answer is right: the confidence, from 0 to 1. A policy is a stopping rule: a set of thresholds for that confidence."),
      rules,
      explain && h("p", { class: "term" }, "A token is a piece of text, about a short word. The full budget is the cost of the same questions without early stopping."),
      facts,
    ),
  );
  return {
    element,
    show(level) {
      check(level);
      setText(sentence, guaranteeOf(report, level));
      replace(plain, plainly(report, level, explain));
      replace(rules, (level.certified ? rulesOf(report, level) : [REFUSED]).map(ruleItem));
      replace(facts, factsOf(report, level));
    },
  };
}

/**
 * @param {ReportData} report
 * @param {Level} level
 * @param {boolean} explain
 */
function plainly(report, level, explain) {
  if (!level.certified) return asSentence(level.reason ?? "no policy passed its test");
  const meaning = explain ? `α (alpha) is the risk you accept: ${riskWording(report.risk).counts}. Here it is ${frequency(level.alpha)}, ` : "";
  return `${meaning}${explain ? "on" : "On"} average over new questions like those it was calibrated on${report.n > 1 ? `, each answered by a vote of ${report.n} samples` : ""}.${jointlyOf(report, level)}${samePolicyOf(report.levels, level)}`;
}

/** @param {string} text of the service, which begins small and ends without a stop */
function asSentence(text) {
  return `${text.charAt(0).toUpperCase()}${text.slice(1).replace(/\.$/, "")}.`;
}

/** @param {ReportData} report */
function status({ active, fits }) {
  if (fits === false) return h("p", null, h("b", null, "This certificate is for another engine, so it guarantees nothing here."));
  if (!active) return h("p", null, h("b", null, "This certificate is not active: no question runs under it now."));
  return null;
}

/** @param {ReportData} report */
function badges({ id, active, fits, created, ...procedure }) {
  const tag = (/** @type {string} */ mark, /** @type {string} */ text, /** @type {string} */ kind) =>
    h("li", { class: `tag ${kind}` }, h("span", { "aria-hidden": "true" }, mark), ` ${text}`);
  return h(
    "ul",
    { class: "badges" },
    active ? tag("●", "active", "good") : tag("○", "not active", ""),
    fits === false && tag("✕", "for another engine", "bad"),
    h("li", null, `${samplesWords(procedure)}${kindWords(procedure)}`),
    h("li", null, "certificate ", h("code", null, id)),
    created && h("li", null, `created ${created}`),
  );
}

/**
 * @param {ReportData} report
 * @param {(level: Level) => void} onLevel
 */
function levelChoice({ levels }, onLevel) {
  const name = uniqueId("level");
  const choices = levels.map((level) => {
    const input = h("input", { type: "radio", name, value: String(level.alpha), onchange: () => onLevel(level) });
    const note = level.certified ? null : h("small", null, "not certified");
    return { level, input, label: h("label", { class: level.certified ? "" : "infeasible" }, input, h("span", null, percent(level.alpha), note)) };
  });
  const element = h("fieldset", { class: "level-choice" }, h("legend", null, "α"), choices.map(({ label }) => label));
  return {
    element,
    /** @param {Level} level */
    check(level) {
      for (const choice of choices) choice.input.checked = choice.level === level;
    },
  };
}

/** @param {{ exit: "high" | "low" | "natural" | null, text: string }} rule */
function ruleItem({ exit, text }) {
  const look = exit ? EXITS[exit] : { mark: "◆", role: "muted" };
  return h("li", null, h("span", { class: "rule-mark", "aria-hidden": "true", style: { color: `var(--${look.role})` } }, look.mark), text);
}

/**
 * @param {ReportData} report
 * @param {Level} level
 */
function factsOf(report, level) {
  const figures = figuresOf(level);
  if (!level.certified || !figures) return [];
  const on = level.test && report.test ? `${count(report.test.n_problems, "test problem")}` : `${count(report.calibration.n_problems, "calibration problem")}`;
  const fact = (/** @type {string} */ name, /** @type {string} */ value, /** @type {string} */ note) =>
    h("div", null, h("dt", null, name), h("dd", null, value, h("small", null, note)));
  return [
    fact("realised risk", figures.risk === null ? "–" : percent(figures.risk), `${riskWording(report.risk).realised}, on ${on}`),
    fact("tokens", percent(figures.tokens_share, 0), `of the full budget: ${number(figures.tokens)} instead of ${number(figures.full_budget_tokens)} per question`),
    fact("answers", percent(figures.share_answered, 0), `of the questions; ${percent(figures.share_right, 0)} of all questions are answered correctly`),
  ];
}
