/** A chart with its legend, and its figures as a table for those who cannot see it. */

import { h, replace, setText } from "./dom.js";
import { number } from "./format.js";
import { drawBands, drawMarks } from "./overlay.js";
import { plot, uPlot } from "./plot.js";
import { colour } from "./theme.js";

/** @typedef {import("./plot.js").Axis} Axis */
/** @typedef {import("./overlay.js").Band} Band */
/** @typedef {import("./overlay.js").Mark} Mark */

/**
 * @typedef {object} Series
 * @property {string} label
 * @property {number[]} x rising; the series of a chart may have different ones
 * @property {(number | null)[]} y null where there is a gap
 * @property {string} [role] colour by its role; "blue"
 * @property {"line" | "steps" | "bars" | "points"} [kind] "line"
 * @property {number[]} [dash] of the line, CSS pixels
 * @property {number} [width] of the line, CSS pixels
 * @property {number} [bar] width of bars in x, for "bars"; by default what there is room for. With it,
 *   "steps" lie around x as bars do; without it, they go from one x to the next
 * @property {boolean} [fill] tint what lies under it
 * @property {(value: number) => string} [format] of its figures
 */

/**
 * @typedef {object} ChartSettings
 * @property {string} label what it shows, in one sentence: its text alternative
 * @property {Series[]} series
 * @property {{ x: Axis, y: Axis }} axes
 * @property {Band[]} [bands] drawn behind the series
 * @property {Mark[]} [marks] points with a shape and a word, and lines across
 * @property {number} [height] CSS pixels; 240
 * @property {boolean} [legend] shown if there are several series, unless it says otherwise
 * @property {boolean} [table] "figures as a table" below; true
 */

/**
 * @typedef {object} Chart
 * @property {HTMLElement} element
 * @property {(settings: ChartSettings) => void} update draws other figures: same number and kinds of
 *   series, same axes but for their limits
 * @property {() => void} destroy
 */

/**
 * Draws a chart into `root`, after what is there.
 *
 * @param {HTMLElement} root
 * @param {ChartSettings} settings
 * @returns {Chart}
 */
export function chart(root, settings) {
  let now = settings;
  const canvas = h("div", { class: "chart-canvas", role: "img" });
  const legend = h("ul", { class: "chart-legend" });
  const table = h("div", { class: "chart-table", tabindex: "0", role: "group", "aria-label": "Figures" });
  const details = h(
    "details",
    { class: "chart-figures", hidden: settings.table === false },
    h("summary", null, "Figures as a table"),
    table,
  );
  const element = h("figure", { class: "chart" }, legend, canvas, details);
  root.append(element);
  details.addEventListener("toggle", () => details.open && replace(table, tableOf(now)));

  // Axes are objects of which uPlot's range functions read the limits, so that updates move them.
  const x = { ...settings.axes.x };
  const y = { ...settings.axes.y };
  const { u, destroy } = plot(canvas, {
    x,
    y,
    height: settings.height ?? 240,
    series: settings.series.map((one, at) => seriesOf(one, () => now.series[at] ?? one)),
    data: aligned(settings.series),
    cursor: { drag: { x: false, y: false }, y: false, points: { size: 7 } },
    hooks: {
      drawClear: [(/** @type {any} */ plotted) => drawBands(plotted, now.bands ?? [])],
      draw: [(/** @type {any} */ plotted) => drawMarks(plotted, now.marks ?? [])],
      setCursor: [(/** @type {any} */ plotted) => read(plotted.cursor.idx ?? null)],
    },
  });

  /** @param {number | null} at index into the aligned figures under the pointer */
  function read(at) {
    now.series.forEach((one, row) => {
      const value = at === null ? null : u.data[row + 1]?.[at];
      const output = legend.children[row]?.querySelector("output");
      if (output) setText(output, typeof value === "number" ? (one.format ?? plain)(value) : "");
    });
  }

  function describe() {
    canvas.setAttribute("aria-label", now.label);
    legend.hidden = !(now.legend ?? now.series.length > 1);
    replace(legend, now.series.map(legendItem));
    if (details.open) replace(table, tableOf(now));
  }

  describe();
  return {
    element,
    update(settings) {
      now = settings;
      Object.assign(x, settings.axes.x);
      Object.assign(y, settings.axes.y);
      describe();
      u.setData(aligned(settings.series));
    },
    destroy() {
      destroy();
      element.remove();
    },
  };
}

/** @param {number} value */
function plain(value) {
  return number(value, 3);
}

/** @param {Series} one */
function legendItem(one) {
  const style = { borderColor: `var(--${one.role ?? "blue"})` };
  const kind = one.dash ? "dashed" : (one.kind ?? "line");
  return h("li", null, h("span", { class: `swatch ${kind}`, style }), one.label, " ", h("output"));
}

/**
 * @param {Series[]} series
 * @returns {any[]} uPlot's data: all x, then each series on them
 */
function aligned(series) {
  const first = series[0];
  if (!first) return [[]];
  const same = series.every((one) => one.x === first.x);
  if (same) return [first.x, ...series.map((one) => one.y)];
  return uPlot.join(series.map((one) => [one.x, one.y]));
}

/**
 * @param {Series} one
 * @param {() => Series} current the same series after an update
 */
function seriesOf(one, current) {
  const role = one.role ?? "blue";
  const bars = one.kind === "bars";
  const paths = {
    line: undefined,
    steps: one.bar ? outline(current) : uPlot.paths.stepped?.({ align: 1 }),
    bars: uPlot.paths.bars?.({ size: [0.9, 80], align: 0, ...(one.bar && { disp: barWidth(current) }) }),
    points: () => null,
  }[one.kind ?? "line"];
  return {
    label: one.label,
    stroke: () => colour(role),
    width: bars ? 0 : (one.width ?? 2),
    dash: one.dash,
    fill: bars || one.fill ? () => `${colour(role)}${bars ? "b3" : "22"}` : undefined,
    points: { show: one.kind === "points", size: 7, fill: () => colour(role) },
    ...(paths && { paths }),
  };
}

/**
 * @param {() => Series} current
 */
function barWidth(current) {
  const values = (/** @type {any} */ u) => u.data[0].map(() => (current().bar ?? 1) * 0.92);
  const starts = (/** @type {any} */ u) => u.data[0].map((/** @type {number} */ at) => at - (current().bar ?? 1) * 0.46);
  return { x0: { unit: 1, values: starts }, size: { unit: 1, values } };
}

/**
 * Steps around each x, as wide as bars are.
 *
 * @param {() => Series} current
 */
function outline(current) {
  return (/** @type {any} */ u, /** @type {number} */ row, /** @type {number} */ from, /** @type {number} */ to) => {
    const stroke = new Path2D();
    const half = (current().bar ?? 1) / 2;
    for (let at = from; at <= to; at += 1) {
      const x = u.data[0][at];
      const y = u.valToPos(u.data[row][at] ?? 0, "y", true);
      stroke.lineTo(u.valToPos(x - half, "x", true), y);
      stroke.lineTo(u.valToPos(x + half, "x", true), y);
    }
    return { stroke };
  };
}

/** @param {ChartSettings} settings */
function tableOf({ series, axes, label }) {
  const [xs, ...columns] = aligned(series);
  const formatX = axes.x.format ?? plain;
  return h(
    "table",
    null,
    h("caption", { class: "unseen" }, label),
    h(
      "thead",
      null,
      h("tr", null, h("th", { scope: "col" }, axes.x.label ?? "x"), series.map((one) => h("th", { scope: "col" }, one.label))),
    ),
    h(
      "tbody",
      null,
      Array.from(xs, (at, row) =>
        h(
          "tr",
          null,
          h("th", { scope: "row" }, formatX(at)),
          series.map((one, column) => {
            const value = columns[column]?.[row];
            return h("td", null, typeof value === "number" ? (one.format ?? plain)(value) : "");
          }),
        ),
      ),
    ),
  );
}
