/** One certified level, live: its risk over time. */

import { chart } from "../charts.js";
import { h } from "../dom.js";
import { measured, number, percent } from "../format.js";
import { beforeNow } from "./figures.js";

/** @typedef {import("./figures.js").Level} Level */

/**
 * The risk over time with its confidence sequence, up to now; null while there are no two points before now.
 *
 * @param {Level} level
 * @param {string} now ISO 8601
 * @returns {{ element: HTMLElement, draw: () => import("../charts.js").Chart } | null}
 */
export function riskChart(level, now) {
  const { alpha, test } = level;
  if (test === null) return null;
  const known = level.history.filter(({ risk, low, high }) => risk !== null && low !== null && high !== null);
  if (known.length < 2) return null;
  const history = [...known, { ...test, time: now }];
  const { unit, x } = beforeNow(history, now);
  const top = Math.max(alpha, ...history.map(({ high }) => high ?? 0));
  const element = h("div", { class: "live-chart" }, h("p", { class: "muted" }, `Live risk at α = ${percent(alpha)} over ${unit}; the dashed steps are the ends of its interval`));
  /** @param {string} label @param {(number | null)[]} y @param {number[]} [dash] */
  const line = (label, y, dash) => ({ label, x, y, role: dash ? "muted" : "blue", dash, width: dash ? 1 : 2, kind: /** @type {const} */ ("steps"), format: measured });
  return {
    element,
    draw: () =>
      chart(element, {
        label: `Live risk at α = ${percent(alpha)} with its interval, by ${unit} before now. The target is ${percent(alpha)}.`,
        height: 170,
        series: [
          line("live risk", history.map(({ risk }) => risk)),
          line("lower end of its interval", history.map(({ low }) => low), [4, 3]),
          line("upper end", history.map(({ high }) => high), [4, 3]),
        ],
        marks: [{ y: alpha, role: "orange", label: `target ${percent(alpha)}`, dash: [] }],
        axes: {
          x: { label: `${unit} before now`, max: 0, format: (ago) => number(Math.abs(ago), 1) },
          y: { label: "risk", min: 0, max: 1.15 * top, format: (share) => percent(share) },
        },
      }),
  };
}
