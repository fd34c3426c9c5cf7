/** The promise of a certificate at one level, and the evidence for it: what stands first. */

import { h, replace, setText } from "../dom.js";
import { EXITS } from "../exits.js";
import { count, frequency, measured, number, percent, sentence } from "../format.js";
import { evidenceLegend, evidenceTable } from "./evidence.js";
import { sideOf } from "./interval.js";
import { figuresOf } from "./report-data.js";
import { guaranteeOf, jointlyOf, kindWords, riskWording, rulesOf, samePolicyOf, samplesWords, stateOf, surenessOf, whyNot } from "./wording.js";

/** @typedef {import("./report-data.js").ReportData} ReportData */
/** @typedef {import("./report-data.js").Level} Level */

/** @type {{ exit: null, text: string }} */
const REFUSED = {
  exit: null,
  text: "The service refuses a question with this α, unless the caller accepts the full budget or an abstention instead. Neither has a guarantee.",
};

/**
 * @param {ReportData} report
 * @param {(level: Level) => void} onLevel called when another level is chosen
 * @returns {{ element: HTMLElement, show: (level: Level) => void }}
 */
export function guaranteeSection(report, onLevel) {
  const promise = h("h2");
  const plain = h("p", { class: "plain" });
  const found = h("div", { class: "found" });
  const table = evidenceTable([report], (alpha) => {
    const level = report.levels.find((one) => one.alpha === alpha);
    if (level) onLevel(level);
  });
  const element = h(
    "section",
    { class: "pledge" },
    badges(report),
    promise,
    status(report),
    plain,
    h("h3", null, report.test ? "Was it kept on problems the calibration never saw?" : "What the calibration problems show"),
    found,
    evidenceLegend([report]),
    table.element,
    h("p", { class: "hint" }, hintOf(report)),
  );
  return {
    element,
    show(level) {
      table.show(level.alpha);
      setText(promise, guaranteeOf(report, level));
      setText(plain, plainly(report, level));
      replace(found, foundWords(report, level));
    },
  };
}

/**
 * What the promise says, and what happens to a question under it.
 *
 * @param {ReportData} report
 * @returns {{ element: HTMLElement, show: (level: Level) => void }}
 */
export function meaningSection(report) {
  const rules = h("ul", { class: "rules" });
  const more = h("p");
  const title = h("h3");
  const element = h(
    "section",
    { class: "meaning" },
    h("div", null, h("h3", null, "How sure is that?"), h("p", null, surenessOf(report)), more),
    h("div", null, title, rules, h("p", { class: "term" }, "Confidence is a number from 0 to 1 that is read from the model every few tokens: the higher it is, the likelier an answer given now should be right. A token is a piece of text, about a short word.")),
  );
  return {
    element,
    show(level) {
      setText(title, `What happens to a question at α = ${percent(level.alpha)}`);
      replace(rules, (level.certified ? rulesOf(report, level) : [REFUSED]).map(ruleItem));
      setText(more, level.certified ? `${jointlyOf(report, level)}${samePolicyOf(report.levels, level)}`.trim() : "");
      more.hidden = more.textContent === "";
    },
  };
}

/**
 * @param {ReportData} report
 * @param {Level} level
 */
function plainly(report, level) {
  if (!level.certified) return whyNot(level).long;
  const vote = report.n > 1 ? `, each answered by a vote of ${report.n} samples` : "";
  return `α is the risk you accept: ${riskWording(report.risk).counts}. Here it is ${frequency(level.alpha)}, on average over new questions like those of the calibration, on which the rule was chosen${vote}.`;
}

/**
 * The figures of the level in words: whether its promise was kept, and what stopping early does.
 *
 * @param {ReportData} report
 * @param {Level} level
 */
function foundWords(report, level) {
  const figures = figuresOf(level);
  if (!level.certified || !figures) return [];
  const set = (level.test && report.test) || report.calibration;
  const on = count(set.n_problems, level.test ? "test problem" : "calibration problem");
  const { risk, risk_low: low, risk_high: high } = figures;
  const { mark, kind } = sideOf(level, figures);
  const target = `the promised ${percent(level.alpha)}`;
  const side = { good: `below ${target}`, bad: `above ${target}, beyond chance`, "": `which includes ${target}` }[kind];
  const interval = low === null || high === null ? "" : ` (95% interval: ${measured(low)} to ${measured(high)})`;
  const verdict =
    risk === null
      ? [`On ${on}, no question was answered.`]
      : [h("span", { class: `side ${kind}`, "aria-hidden": "true" }, `${mark} `), `On ${on}, `, h("b", null, measured(risk)), ` ${riskWording(report.risk).realised}${interval}, ${side}.`];
  return [h("p", null, verdict), h("p", null, effectWords(figures, set))];
}

/**
 * What stopping early does to tokens and right answers.
 *
 * @param {import("./report-data.js").Figures} figures
 * @param {import("./report-data.js").Problems} set that they were measured on
 */
function effectWords({ tokens, tokens_share: share, share_answered: answered, share_right: right }, { full_right: full }) {
  const used = `Answering took ${measured(share)} of the tokens of the full budget, which is thinking to the end (${number(tokens)} per question)`;
  if (!Number.isFinite(full)) return `${used}.`;
  const got = answered < 1 ? `${used}. It got ${measured(right)} of the questions right and abstained on ${measured(1 - answered)}` : `${used} and got ${measured(right)} of the questions right`;
  const compared = `${got}. The full budget gets ${measured(full)} right`;
  return right > full ? `${compared}: the model sometimes has the right answer, thinks on and ends with a wrong one (overthinking).` : `${compared}.`;
}

/**
 * What the table does not say by itself.
 *
 * @param {ReportData} report
 */
function hintOf({ levels, risk }) {
  const figures = levels.filter((level) => level.certified).map((level) => ({ level, found: figuresOf(level) }));
  const doubtful = figures.some(({ level, found }) => found && sideOf(level, found).mark === "○");
  const shares = figures.map(({ found }) => found?.tokens_share ?? 0);
  const rises = risk === "selective" && shares.some((share, at) => at > 0 && share > (shares[at - 1] ?? 1));
  return [
    "The promise is about all questions like these, and these problems are a sample of them.",
    doubtful && "○ If the interval includes the target, this sample cannot tell on which side of it the risk is.",
    rises && "A larger α does not always take fewer tokens: at each α the rule is chosen for right answers first, then for few tokens.",
  ]
    .filter(Boolean)
    .join(" ");
}

/** @param {ReportData} report */
function status(report) {
  const { refusal } = report;
  const words = [...lacking(report), ...(refusal ? [` It must not be served. ${sentence(refusal)}`] : [])];
  return words.length ? h("p", null, words) : null;
}

/** @param {ReportData} report @returns {(string | HTMLElement)[]} why questions do not have this guarantee now */
function lacking({ active, fits, withdrawn, voided }) {
  if (fits === false) return [h("b", null, "This certificate is for another engine, so it guarantees nothing here.")];
  if (voided) return [h("b", null, "No answer of this engine has this guarantee:"), ` ${voided}.`];
  if (withdrawn) return [h("b", null, "The promise was withdrawn after an alarm: answers come without it until a fresh certificate is active."), " ", h("a", { href: "#/operate" }, "What happened")];
  return active ? [] : [h("b", null, "This certificate is not active: no question runs under it now.")];
}

/** @param {ReportData} report */
function badges(report) {
  const { mark, word, kind } = stateOf(report);
  return h(
    "ul",
    { class: "badges" },
    h("li", { class: `tag ${kind}` }, h("span", { "aria-hidden": "true" }, mark), ` ${word}`),
    h("li", null, `${samplesWords(report)}${kindWords(report)}`),
    h("li", null, "certificate ", h("code", null, report.id)),
    report.created && h("li", null, `made on ${report.created}`),
  );
}

/** @param {{ exit: "high" | "low" | "natural" | null, text: string }} rule */
function ruleItem({ exit, text }) {
  const look = exit ? EXITS[exit] : { mark: "◆", role: "muted" };
  return h("li", null, h("span", { class: "rule-mark", "aria-hidden": "true", style: { color: `var(--${look.role})` } }, look.mark), text);
}
