/** One certified level, live: its risk over days, and its drift. */

import { chart } from "../charts.js";
import { h } from "../dom.js";
import { number, percent } from "../format.js";
import { daysOf } from "./figures.js";

/** @typedef {import("./figures.js").Level} Level */

/**
 * The risk over time with its confidence sequence; null while there are no two points to join.
 *
 * @param {Level} level
 * @param {string} now ISO 8601
 * @returns {{ element: HTMLElement, draw: () => import("../charts.js").Chart } | null}
 */
export function riskChart(level, now) {
  const { alpha, risk_upper: bound } = level;
  const history = level.history.filter(({ low, high }) => low !== null && high !== null);
  if (history.length < 2) return null;
  const x = daysOf(history, now);
  const top = Math.max(alpha, bound ?? 0, ...history.map(({ high }) => high ?? 0));
  const apart = Math.abs(alpha - (bound ?? 0)) > 0.1 * top; // else their labels would lie on each other
  const element = h("div", { class: "live-chart" }, h("p", { class: "muted" }, `Live risk at α ${percent(alpha)} over days, with its confidence sequence`));
  /** @param {string} label @param {(number | null)[]} y @param {number[]} [dash] */
  const line = (label, y, dash) => ({ label, x, y, role: dash ? "muted" : "blue", dash, width: dash ? 1 : 2, format: percent });
  return {
    element,
    draw: () =>
      chart(element, {
        label: `Live risk at α ${percent(alpha)} with its confidence sequence, by days before now. The target is ${percent(alpha)}.`,
        height: 200,
        series: [
          line("live risk", history.map(({ risk }) => risk)),
          line("lower end of the confidence sequence", history.map(({ low }) => low), [4, 3]),
          line("upper end", history.map(({ high }) => high), [4, 3]),
        ],
        marks: [
          { y: alpha, role: "orange", label: `target ${percent(alpha)}`, dash: [] },
          ...(bound === null ? [] : [{ y: bound, role: "muted", label: apart ? `certified bound ${percent(bound)}` : "" }]),
        ],
        axes: {
          x: { label: "days before now", max: 0, format: (days) => number(Math.abs(days), 1) },
          y: { label: "risk", min: 0, max: 1.15 * top, format: (share) => percent(share, 0) },
        },
      }),
  };
}

/** @param {Level} level */
export function driftTable({ alpha, drift }) {
  if (drift.length === 0) return null;
  const head = ["Statistic", "Calibration", "Now", "Mean rank", "Noise band", "Test"];
  const caption = `Drift at α ${percent(alpha)}, last ${number(drift[0]?.window ?? 0)} questions`;
  return h(
    "div",
    { class: "scrolls", tabindex: "0", role: "group", "aria-label": caption },
    h(
      "table",
      null,
      h("caption", null, caption),
      h("thead", null, h("tr", null, head.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", null, drift.map(driftRow)),
    ),
  );
}

/** @param {import("./figures.js").Drift} one */
function driftRow({ statistic, calibration, now, rank, low, high, alarmed }) {
  const outside = now !== null && (rank < low || rank > high);
  /** @param {number | null} value */
  const figure = (value) => (value === null ? "–" : statistic === "declined" ? percent(value) : number(value, statistic === "tokens" ? 0 : 2));
  return h(
    "tr",
    null,
    h("th", { scope: "row" }, statistic),
    h("td", null, figure(calibration)),
    h("td", null, figure(now)),
    h("td", null, now === null ? "–" : `${number(rank, 2)}${outside ? " ▲ outside" : ""}`),
    h("td", null, `${number(low, 2)} to ${number(high, 2)}`),
    h("td", null, alarmed ? "▲ drift alarm" : "● no alarm"),
  );
}
