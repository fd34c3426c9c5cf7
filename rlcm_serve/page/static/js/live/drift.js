/** What is unlike the calibration, with the noise that is to be expected. */

import { h } from "../dom.js";
import { count, list, measured, number, percent } from "../format.js";
import { riskWording } from "../trust/wording.js";
import { STATISTICS } from "./figures.js";

/** @typedef {import("./figures.js").Monitored} Monitored */
/** @typedef {import("./figures.js").Drift} Drift */

const HEAD = ["", "In calibration", "Now", "Rank among earlier values", "Finding"];

/** @param {Monitored[]} certificates */
function comparedLevels(certificates) {
  return certificates.flatMap((one) => one.levels.filter(({ drift }) => drift.length > 0).map((level) => ({ one, level })));
}

/** @param {ReturnType<typeof comparedLevels>} levels with a figure outside the noise */
function oddOnes(levels) {
  return levels.filter(({ level }) => level.drift.some((statistic) => statistic.alarmed || isOutside(statistic)));
}

/**
 * Whether questions are as in the calibration, in one sentence or two.
 *
 * @param {Monitored[]} certificates
 */
export function driftWords(certificates) {
  const levels = comparedLevels(certificates);
  if (!levels.length) return "No question has been compared with the calibration yet.";
  const moved = levels.flatMap(({ level }) => level.drift.filter(({ alarmed }) => alarmed).map(({ statistic }) => STATISTICS[statistic] ?? statistic));
  const names = [...new Set(moved)];
  if (names.length) return `Questions or readings have changed since the calibration: ${list(names)}. The risk may have changed too: only labels can tell.`;
  const odd = new Set(levels.flatMap(({ level }) => level.drift.filter(isOutside).map(({ statistic }) => STATISTICS[statistic] ?? statistic)));
  if (odd.size) return `Questions: there is no alarm, but the noise of chance does not explain ${list([...odd])} now. It may still be chance: an alarm needs more evidence.`;
  return "Questions: no change since the calibration is known. This is no proof: they can become harder while all figures stay the same.";
}

/**
 * @param {Monitored[]} certificates
 * @returns {HTMLElement[]} a table for each level that has been compared
 */
export function driftSection(certificates) {
  const levels = comparedLevels(certificates);
  if (!levels.length) return [];
  const odd = oddOnes(levels);
  const even = levels.filter((level) => !odd.includes(level));
  const tables = (/** @type {typeof levels} */ some) => some.map(({ one, level }) => driftTable(one, level));
  const rest = even.length > 0 && h("details", null, h("summary", null, `${count(even.length, "level")} at which everything is within the noise`), tables(even));
  return [...tables(odd), ...(rest ? [rest] : [])];
}

/**
 * @param {Monitored} certificate
 * @param {import("./figures.js").Level} level
 */
function driftTable({ id, risk }, { alpha, drift }) {
  const caption = [`${riskWording(risk).title}, α = ${percent(alpha)} (`, h("code", null, id), `), last ${number(drift[0]?.window ?? 0)} questions`];
  return h(
    "div",
    { class: "scrolls", tabindex: "0", role: "group", "aria-label": `Comparison with calibration at α = ${percent(alpha)}` },
    h(
      "table",
      { class: "drift" },
      h("caption", null, caption),
      h("thead", null, h("tr", null, HEAD.map((name) => (name ? h("th", { scope: "col" }, name) : h("td"))))),
      h("tbody", null, drift.map(driftRow)),
    ),
  );
}

/** @param {Drift} one */
function isOutside({ now, rank, low, high }) {
  return now !== null && (rank < low || rank > high);
}

/** @param {Drift} one */
function driftRow(one) {
  const { statistic, calibration, now, rank, low, high, alarmed } = one;
  const outside = isOutside(one);
  const figure = (/** @type {number | null} */ value) => (value === null ? "–" : statistic === "declined" ? measured(value) : number(value, statistic === "tokens" ? 0 : 2));
  const at = (/** @type {number} */ share) => `${100 * share}%`;
  const finding = alarmed ? "▲ changed" : outside ? "△ outside the noise, no alarm" : now === null ? "– no data yet" : "● within the noise";
  return h(
    "tr",
    null,
    h("th", { scope: "row" }, STATISTICS[statistic] ?? statistic),
    h("td", null, figure(calibration)),
    h("td", null, figure(now)),
    h(
      "td",
      null,
      h(
        "div",
        { class: "track noise", "aria-hidden": "true" },
        h("span", { class: "band", style: { left: at(low), width: `calc(${at(high)} - ${at(low)})` } }),
        now !== null && h("span", { class: outside ? "point out" : "point", style: { left: at(rank) } }),
      ),
      h("small", null, now === null ? "" : `${rank.toFixed(2)}; noise ${low.toFixed(2)} to ${high.toFixed(2)}`),
    ),
    h("td", { class: alarmed ? "bad" : null }, finding),
  );
}
