/** uPlot in the page's colours: redrawn when these change, resized with what it lies in. */

import uPlot from "../vendor/uplot/uPlot.esm.js";
import { colour, onThemeChange } from "./theme.js";

export { uPlot };

export const FONT = "12px ui-sans-serif, system-ui, sans-serif";

/**
 * @typedef {object} Axis
 * @property {string} [label] what it counts, with its unit
 * @property {number} [min] by default that of the data
 * @property {number} [max]
 * @property {(value: number) => string} [format] of its ticks
 * @property {number[] | (() => number[])} [ticks] where they are; by default evenly
 * @property {boolean} [log] logarithmic, base 10
 * @property {boolean} [bare] neither ticks nor label are drawn
 */

/**
 * A plot that fills its root's width.
 *
 * @param {HTMLElement} root
 * @param {object} settings
 * @param {Axis} settings.x
 * @param {Axis} settings.y
 * @param {number} settings.height CSS pixels
 * @param {any[]} settings.series uPlot's, without that of x
 * @param {any[]} settings.data uPlot's, aligned
 * @param {any} [settings.hooks] uPlot's
 * @param {any} [settings.cursor] uPlot's; by default none
 * @param {[number, number, number, number]} [settings.padding]
 * @returns {{ u: any, destroy: () => void }}
 */
export function plot(root, { x, y, height, series, data, hooks, cursor, padding }) {
  const u = new uPlot(
    {
      width: Math.max(root.clientWidth, 60),
      height,
      padding: padding ?? [10, 12, x.bare ? 4 : 0, y.bare ? 4 : 0],
      legend: { show: false },
      cursor: cursor ?? { show: false },
      scales: { x: scaleOf(x), y: scaleOf(y) },
      axes: [axisOf(x, 0), axisOf(y, 1)],
      series: [{}, ...series],
      hooks: hooks ?? {},
    },
    data,
    root,
  );
  const resized = new ResizeObserver(() => {
    const width = Math.floor(root.clientWidth);
    if (width >= 60 && width !== u.width) u.setSize({ width, height: u.height });
  });
  resized.observe(root);
  const unthemed = onThemeChange(() => u.redraw(false, true));
  return {
    u,
    destroy() {
      resized.disconnect();
      unthemed();
      u.destroy();
    },
  };
}

/** @param {Axis} axis its limits are read whenever something is drawn, so that they may be moved */
function scaleOf(axis) {
  return {
    time: false,
    distr: axis.log ? 3 : 1,
    /** @type {(u: any, low: number | null, high: number | null) => [number, number]} */
    range: (_, low, high) => {
      const from = axis.min ?? low ?? 0;
      const to = axis.max ?? high ?? 1;
      return from < to ? [from, to] : [from - 0.5, from + 0.5];
    },
  };
}

/**
 * @param {Axis} axis
 * @param {0 | 1} vertical
 */
function axisOf({ label, format, ticks, bare }, vertical) {
  if (bare) return { show: false };
  const made = {
    stroke: () => colour("ink"),
    font: FONT,
    labelFont: FONT,
    label,
    labelSize: label ? 20 : 0,
    labelGap: 2,
    size: vertical ? 46 : 28,
    gap: 5,
    grid: { stroke: () => colour("grid"), width: 1 },
    ticks: { stroke: () => colour("grid"), width: 1, size: 4 },
  };
  return {
    ...made,
    ...(format && { values: (/** @type {any} */ _, /** @type {number[]} */ at) => at.map((v) => (v === null ? "" : format(v))) }),
    ...(ticks && { splits: () => (typeof ticks === "function" ? ticks() : ticks) }),
  };
}
