/** The p-value map of one level: cells of λ1 x λ2 that can be gone through by pointer and arrow keys. */

import { h, replace, setText, svg, uniqueId } from "../dom.js";
import { percent, threshold } from "../format.js";
import { drawCells, drawMarks, drawScale, layoutOf } from "./map-drawing.js";
import { pValue } from "./wording.js";

/** @typedef {import("./report-data.js").PValueMap} PValueMap */
/** @typedef {{ x: number, y: number }} Cell column and row */

const STEPS = {
  ArrowLeft: { x: -1, y: 0 },
  ArrowRight: { x: 1, y: 0 },
  ArrowUp: { x: 0, y: 1 },
  ArrowDown: { x: 0, y: -1 },
  PageUp: { x: 0, y: 8 },
  PageDown: { x: 0, y: -8 },
};

/**
 * @param {number} delta of the certificate; p-values up to it are drawn as small
 * @returns {{ element: HTMLElement, show: (map: PValueMap) => void, destroy: () => void }}
 */
export function pValueMap(delta) {
  const help = uniqueId("map-help");
  const reading = h("output", { class: "map-reading", "aria-live": "polite" });
  const plane = svg("svg", { class: "map-plane", "aria-hidden": "true", focusable: "false" });
  const field = h(
    "div",
    { class: "map-field", role: "application", tabindex: "0", "aria-roledescription": "map", "aria-describedby": help },
    plane,
  );
  const legend = h("div", { class: "map-legend" });
  const tested = h("div", { class: "wide", tabindex: "0", role: "group", "aria-label": "Tested stopping rules" });
  const details = h("details", { class: "chart-figures" }, h("summary", null, "Tested stopping rules as a table"), tested);
  const element = h(
    "div",
    { class: "map" },
    legend,
    field,
    reading,
    h("p", { class: "hint", id: help }, "Point at a cell, or focus the map and use the arrow keys; Home goes to the chosen rule."),
    details,
  );

  /** @type {PValueMap | null} */
  let map = null;
  /** @type {ReturnType<typeof layoutOf> | null} */
  let layout = null;
  /** @type {Cell} */
  let at = { x: 0, y: 0 };
  const halo = svg("rect", { class: "map-cursor halo" });
  const cursor = svg("rect", { class: "map-cursor" });

  function draw() {
    const width = Math.floor(field.clientWidth);
    if (!map || width < 60) return;
    layout = layoutOf(map, width);
    plane.setAttribute("viewBox", `0 0 ${layout.width} ${layout.height}`);
    plane.setAttribute("height", String(layout.height));
    replace(plane, drawCells(map, layout, delta), drawScale(map, layout), halo, cursor, drawMarks(map, layout));
    place();
  }

  function place() {
    if (!layout || !map) return;
    const { left, column, row, yOf } = layout;
    const box = { x: left + at.x * column, y: yOf(at.y) - row / 2, width: column, height: row };
    for (const part of [halo, cursor]) for (const [name, value] of Object.entries(box)) part.setAttribute(name, String(value));
    setText(reading, describe(map, at));
  }

  /** @param {Cell} to */
  function go(to) {
    if (!map) return;
    const x = Math.max(0, Math.min(map.lambda_low.length - 1, to.x));
    const y = Math.max(0, Math.min(map.lambda_high.length - 1, to.y));
    if (x === at.x && y === at.y) return;
    at = { x, y };
    place();
  }

  /** @param {PointerEvent} event */
  function point(event) {
    if (!layout) return;
    const box = plane.getBoundingClientRect();
    const x = Math.floor((event.clientX - box.left - layout.left) / layout.column);
    const y = Math.floor((layout.bottom - (event.clientY - box.top)) / layout.row);
    if (x >= 0 && y >= 0) go({ x, y });
  }

  field.addEventListener("pointermove", point);
  field.addEventListener("pointerdown", point); // a finger that taps does not move
  field.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const step = STEPS[/** @type {keyof typeof STEPS} */ (event.key)];
    if (event.key === "Home" && map) go(start(map));
    else if (step) go({ x: at.x + step.x, y: at.y + step.y });
    else return;
    event.preventDefault();
  });
  details.addEventListener("toggle", () => details.open && map && replace(tested, tableOf(map)));
  const resized = new ResizeObserver(draw);
  resized.observe(field);

  return {
    element,
    show(next) {
      map = next;
      at = start(map);
      field.setAttribute("aria-label", labelOf(map));
      replace(legend, legendOf(map, delta));
      if (details.open) replace(tested, tableOf(map));
      draw();
    },
    destroy: () => resized.disconnect(),
  };
}

/**
 * @param {PValueMap} map
 * @returns {Cell} where reading begins
 */
function start(map) {
  return map.chosen ? { x: Math.round(map.chosen.x), y: Math.round(map.chosen.y) } : { x: 0, y: map.lambda_high.length - 1 };
}

/** @param {PValueMap} map */
function labelOf(map) {
  const certified = map.tested.filter((one) => one.certified);
  const here = certified.filter((one) => one.in_plane).length;
  const chosen = map.chosen ? `Chosen: ${lowWords(map.chosen.lambda_low)}, ${highWords(map.chosen.lambda_high)}.` : "No stopping rule is certified.";
  return `p-values over λ1 and λ2 at α = ${percent(map.alpha)}. ${certified.length} stopping rules certified, ${here} of them on this map. ${chosen}`;
}

/** @param {number | null} low */
function lowWords(low) {
  return low === null ? "no λ1 (never abstains early)" : `λ1 = ${threshold(low)}`;
}

/** @param {number | null} high */
function highWords(high) {
  return high === null ? "no λ2 (never stops early)" : `λ2 = ${threshold(high)}`;
}

/**
 * @param {PValueMap} map
 * @param {Cell} cell
 */
function describe(map, { x, y }) {
  const where = `${lowWords(map.lambda_low[x] ?? null)}, ${highWords(map.lambda_high[y] ?? null)}`;
  const p = map.p_values[y]?.[x];
  if (p === null || p === undefined) return `${where}: no stopping rule here, because λ1 must be below λ2.`;
  return `${where}: p-value ${pValue(p)}. ${status(map, { x, y })}`;
}

/**
 * @param {PValueMap} map
 * @param {Cell} cell
 */
function status(map, { x, y }) {
  const at = (/** @type {{ x: number, y: number }} */ one) => Math.abs(one.x - x) < 0.02 && Math.abs(one.y - y) < 0.02;
  const chosen = map.chosen !== null && at(map.chosen);
  const here = map.tested.filter((one) => one.in_plane && at(one));
  if (chosen) return "★ Tested, certified and chosen: questions are answered by this rule.";
  if (here.some((one) => one.certified)) return "● Tested and certified.";
  if (here.length) return "✕ Not certified: its test failed or was not reached.";
  return "Not tested, so this p-value guarantees nothing.";
}

/**
 * @param {PValueMap} map
 * @param {number} delta
 */
function legendOf(map, delta) {
  const key = (/** @type {string} */ mark, /** @type {string} */ text) =>
    h("li", null, h("span", { class: "map-key", "aria-hidden": "true" }, mark), text);
  return [
    h(
      "p",
      { class: "map-bar" },
      h("span", null, "p = 0"),
      h("span", { class: "map-ramp", "aria-hidden": "true" }),
      h("span", null, `δ = ${percent(delta)}`),
      h("span", { class: "map-ramp fails", "aria-hidden": "true" }),
      h("span", null, "1"),
    ),
    h(
      "ul",
      { class: "chart-legend" },
      map.chosen && key("★", "certified and chosen"),
      key("●", "certified"),
      key("✕", "test failed or not reached"),
      map.tested.some((one) => one.certified && !one.in_plane) && key("·", "certified with settings outside this map"),
      key("━", `contour of p = ${percent(delta)}`),
    ),
  ];
}

/** @param {PValueMap} map */
function tableOf(map) {
  const head = ["λ1", "λ2", "Certified", "On this map"].map((name) => h("th", { scope: "col" }, name));
  const words = (/** @type {number | null} */ value) => (value === null ? "never" : threshold(value));
  const rows = map.tested.map((one) =>
    h("tr", null, [words(one.lambda_low), words(one.lambda_high), one.certified ? "yes" : "no", one.in_plane ? "yes" : "no, other settings"].map((text) => h("td", null, text))),
  );
  return h("table", null, h("thead", null, h("tr", null, head)), h("tbody", null, rows));
}
