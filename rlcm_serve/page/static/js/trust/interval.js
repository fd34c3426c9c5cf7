/** A measured figure in its cell: the value, its 95% interval, and both on a scale. */

import { h } from "../dom.js";
import { measured, number, percent } from "../format.js";
import { setsOf } from "./report-data.js";

/** @typedef {import("./report-data.js").Figures} Figures */
/** @typedef {import("./report-data.js").Level} Level */

/**
 * @typedef {object} Column
 * @property {"risk" | "share_answered" | "share_right" | "tokens_share" | "tokens"} name of the figure
 * @property {string} title
 * @property {string} of what it is a share or a number of
 * @property {number} top right end of its scale
 */

/** @param {Column} column @param {Figures} figures */
export function valueOf({ name }, figures) {
  return figures[name];
}

/**
 * @param {Column} column
 * @param {Figures} figures
 * @returns {[number, number] | null} its 95% interval, if it is known
 */
export function intervalOf({ name }, figures) {
  const low = figures[/** @type {keyof Figures} */ (`${name}_low`)] ?? null;
  const high = figures[/** @type {keyof Figures} */ (`${name}_high`)] ?? null;
  return low === null || high === null ? null : [low, high];
}

/** @param {Column} column @param {number} value */
export function written({ name }, value) {
  return name === "tokens" ? number(value) : measured(value);
}

/**
 * @param {Column} column
 * @param {Figures} figures
 * @returns {string} "3.1% to 6.2%"
 */
export function intervalWords(column, figures) {
  const found = intervalOf(column, figures);
  return found ? `${written(column, found[0])} to ${written(column, found[1])}` : "no interval known";
}

/**
 * The figures of a level on its scale: those on test problems in front, those of calibration behind.
 *
 * @param {Column} column
 * @param {Level} level
 * @param {string} role colour of the front
 * @returns {HTMLElement}
 */
export function trackOf(column, level, role) {
  /** @param {number} value */
  const at = (value) => `${Math.min(100, (100 * value) / column.top)}%`;
  const marks = setsOf(level).toReversed().flatMap(({ figures, honest }) => {
    const value = valueOf(column, figures);
    if (value === null) return [];
    const found = intervalOf(column, figures);
    const kind = honest ? "front" : "behind";
    return [
      found && h("span", { class: `span ${kind}`, style: { left: at(found[0]), width: `calc(${at(found[1])} - ${at(found[0])})` } }),
      h("span", { class: `point ${kind}`, style: { left: at(value) } }),
    ];
  });
  return h("div", { class: "track", "aria-hidden": "true", style: { color: `var(--${role})` } }, marks);
}

/**
 * Which side of the target the interval lies on: a shape and words.
 *
 * @param {Level} level
 * @param {Figures} figures
 * @returns {{ mark: string, kind: "good" | "bad" | "", words: string }}
 */
export function sideOf({ alpha }, { risk, risk_low: low, risk_high: high }) {
  if (risk === null) return { mark: "–", kind: "", words: "nothing was answered" };
  const target = percent(alpha);
  if ((high ?? risk) <= alpha) return { mark: "✓", kind: "good", words: `below ${target}` };
  if ((low ?? risk) > alpha) return { mark: "✕", kind: "bad", words: `above ${target}, beyond chance` };
  return { mark: "○", kind: "", words: `the interval includes ${target}` };
}
