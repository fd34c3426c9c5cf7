/** Each level's live risk against its target, and how it came to be so. */

import { h } from "../dom.js";
import { count, measured, percent, range, within } from "../format.js";
import { writeFragment } from "../fragment.js";
import { timeOf } from "../operate/job-log.js";
import { riskWording } from "../trust/wording.js";
import { GUARANTEES, abstainedWords, labelWords, verdictOf, withAlpha } from "./figures.js";
import { riskChart } from "./level.js";

/** @typedef {import("./figures.js").Monitored} Monitored */
/** @typedef {import("./figures.js").Level} Level */

/**
 * A card for each certificate; those that were never asked are folded away.
 *
 * @param {import("./figures.js").Monitoring} body
 * @param {Map<string, string>} titles of the certificates, by id, where more than the risk is known
 * @returns {{ elements: HTMLElement[], draw: () => import("../charts.js").Chart[] }}
 */
export function certificateCards({ certificates, time }, titles) {
  const isUsed = (/** @type {Monitored} */ one) => one.guarantee !== "given" || one.levels.some(({ questions }) => questions > 0);
  const cardsOf = (/** @type {Monitored[]} */ some) => some.map((one) => certificateCard(one, titles.get(one.id), time));
  const [used, unused] = [cardsOf(certificates.filter(isUsed).sort(byNeed)), cardsOf(certificates.filter((one) => !isUsed(one)))];
  const elements = used.map(({ element }) => element);
  if (unused.length)
    elements.push(h("details", null, h("summary", null, `${count(unused.length, "certificate")} without a question so far`), unused.map(({ element }) => element)));
  return { elements, draw: () => [...used, ...unused].flatMap((one) => one.draw()) };
}

/**
 * For sorting: those without a guarantee or with an alarm first, then those that were asked most.
 *
 * @param {Monitored} a
 * @param {Monitored} b
 */
function byNeed(a, b) {
  const isLost = (/** @type {Monitored} */ { guarantee, levels }) => guarantee !== "given" || levels.some(({ test }) => test?.alarmed);
  const asked = (/** @type {Monitored} */ one) => one.levels.reduce((sum, level) => sum + level.questions, 0);
  return Number(isLost(b)) - Number(isLost(a)) || asked(b) - asked(a);
}

/**
 * @param {Monitored} certificate
 * @param {string | undefined} title
 * @param {string} now ISO 8601
 * @returns {{ element: HTMLElement, draw: () => import("../charts.js").Chart[] }}
 */
function certificateCard({ id, risk, active, guarantee, why, since, levels }, title, now) {
  const state = GUARANTEES[guarantee] ?? { mark: "?", word: guarantee, tag: "tag" };
  const charts = [...levels].sort(byWeight).map((level) => riskChart(level, now)).filter((one) => one !== null);
  const [first, ...others] = charts.map(({ element: chart }) => chart);
  const element = h(
    "article",
    { class: "card" },
    h(
      "div",
      { class: "row" },
      h("h3", null, h("a", { href: writeFragment("trust", { id }) }, title ?? riskWording(risk).title), " ", h("code", null, id)),
      h("span", { class: state.tag }, `${state.mark} ${state.word}`),
      active ? null : h("span", { class: "tag" }, "not active"),
    ),
    why === null ? null : h("p", null, `Reason: ${withAlpha(why)}${since ? `, on ${timeOf(since)}` : ""}.`),
    levelTable(id, levels),
    first,
    others.length > 0 && h("details", null, h("summary", null, "Live risk of the other levels"), others),
  );
  return { element, draw: () => charts.map((one) => one.draw()) };
}

/**
 * For sorting: alarms first, then the levels that were asked most.
 *
 * @param {Level} a
 * @param {Level} b
 */
function byWeight(a, b) {
  return Number(b.test?.alarmed ?? false) - Number(a.test?.alarmed ?? false) || b.questions - a.questions;
}

/**
 * @param {string} id
 * @param {Level[]} levels
 */
function levelTable(id, levels) {
  const shadowed = levels.some(({ shadow }) => shadow);
  const top = Math.min(1, 1.06 * Math.max(...levels.flatMap(({ alpha, test }) => [alpha, test && test.risk !== null ? Math.min(test.high, 3 * alpha) : 0])));
  const head = ["Target α", "Live risk", "Labels", "Abstained", shadowed && "Other answer at full budget"].filter(Boolean);
  return h(
    "table",
    { class: "evidence live", role: "table" },
    h("caption", { class: "unseen" }, `Live risk of each level of certificate ${id}`),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, head.map((name) => h("th", { scope: "col", role: "columnheader" }, name)))),
    h("tbody", { role: "rowgroup" }, levels.map((level) => levelRow(level, top, shadowed))),
  );
}

/**
 * @param {Level} level
 * @param {number} top right end of the scale
 * @param {boolean} shadowed
 */
function levelRow(level, top, shadowed) {
  const { alpha, test, shadow } = level;
  const { mark, kind, words } = verdictOf(level);
  const cell = (/** @type {string} */ label, /** @type {string} */ text) => h("td", { role: "cell", class: "figure", "data-label": label }, h("div", { class: "words" }, text));
  const known = test !== null && test.risk !== null;
  return h(
    "tr",
    { role: "row" },
    h("th", { scope: "row", role: "rowheader" }, h("div", { class: "target" }, percent(alpha))),
    h(
      "td",
      { role: "cell", class: "figure risk", "data-label": "Live risk" },
      h(
        "div",
        { class: "words" },
        h("b", null, known ? measured(test.risk ?? 0) : "–"),
        " ",
        known && h("span", { class: "interval" }, range(test.low, test.high)),
        h("small", { class: `side ${kind}` }, h("span", { "aria-hidden": "true" }, mark), ` ${words}`),
      ),
      trackOf(level, top),
    ),
    cell("Labels", labelWords(level)),
    cell("Abstained", abstainedWords(level)),
    shadowed && cell("Other answer at full budget", shadow && shadow.disagreement !== null ? `${within(shadow.disagreement, shadow.low, shadow.high)}, ${count(shadow.agree + shadow.disagree, "run")}` : "–"),
  );
}

/** @param {Level} level @param {number} top */
function trackOf({ alpha, test }, top) {
  const at = (/** @type {number} */ share) => `${Math.min(100, (100 * share) / top)}%`;
  const marks = test !== null && test.risk !== null ? [
    h("span", { class: "span", style: { left: at(test.low), width: `calc(${at(test.high)} - ${at(test.low)})` } }),
    h("span", { class: "point", style: { left: at(test.risk) } }),
  ] : [];
  return h("div", { class: "track", "aria-hidden": "true" }, h("span", { class: "allowed", style: { width: at(alpha) } }), marks);
}
