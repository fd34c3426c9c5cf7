/** What a p-value map is drawn of: cells, the border of δ, thresholds along its sides, marks. */

import { svg } from "../dom.js";
import { decimalsOf, threshold } from "../format.js";

/** @typedef {import("./report-data.js").PValueMap} PValueMap */

const SMALLEST = 1e-6;
/** Left and under: room for an axis's title and for labels of four decimals. */
const LEFT = 64;
const RIGHT = 6;
const TOP = 8;
const UNDER = 62;
/** Room for a further decimal of a label. */
const DIGIT = 7;
const LABEL_ROOM = 15;
/** A label of four decimals, and some distance to the next. */
const LABEL_WIDTH = 40;
/** Below it, a label of the columns' axis is longer than the axis. */
const NARROW = 340;

/** As in `rlcm report`; the map keeps its colours on dark paper. */
const PASSES = [
  [11, 60, 115],
  [63, 127, 192],
  [207, 226, 243],
];
const FAILS = [
  [250, 227, 211],
  [227, 154, 99],
  [140, 58, 10],
];

/**
 * Places of cells, in CSS pixels.
 *
 * @param {PValueMap} map
 * @param {number} width of all of it
 */
export function layoutOf(map, width) {
  const rows = map.lambda_high.length;
  const left = LEFT + roomForMore(map.lambda_high);
  const column = (width - left - RIGHT) / map.lambda_low.length;
  const row = Math.max(7.5, Math.min(26, 380 / rows));
  const bottom = TOP + rows * row;
  return {
    width,
    height: bottom + UNDER + roomForMore(map.lambda_low),
    left,
    bottom,
    column,
    row,
    /** @param {number} x column, 0 is the middle of the first */
    xOf: (x) => left + (x + 0.5) * column,
    /** @param {number} y row, 0 is the middle of the lowest */
    yOf: (y) => bottom - (y + 0.5) * row,
  };
}

/** @typedef {ReturnType<typeof layoutOf>} Layout */

/**
 * Room for the decimals that labels have above four, CSS pixels.
 *
 * @param {(number | null)[]} thresholds
 */
function roomForMore(thresholds) {
  return DIGIT * Math.max(0, decimalsOf(thresholds.filter((value) => value !== null)) - 4);
}

/**
 * @param {PValueMap} map
 * @param {Layout} layout
 * @param {number} delta
 */
export function drawCells(map, { left, bottom, column, row }, delta) {
  const cells = map.p_values.flatMap((line, y) =>
    line.map((p, x) =>
      svg("rect", {
        x: left + x * column,
        y: bottom - (y + 1) * row,
        width: column + 0.4, // no seams between neighbours
        height: row + 0.4,
        ...(p === null ? { class: "map-none" } : { fill: colourOf(p, delta) }),
      }),
    ),
  );
  const border = borderOf(map, left, bottom, column, row, delta);
  const lines = border && [svg("path", { class: "map-border under", d: border }), svg("path", { class: "map-border", d: border })];
  return svg("g", null, cells, lines || []);
}

/**
 * Where p-values of up to δ meet larger ones.
 *
 * @param {PValueMap} map
 * @param {number} left
 * @param {number} bottom
 * @param {number} column
 * @param {number} row
 * @param {number} delta
 */
function borderOf({ p_values: rows }, left, bottom, column, row, delta) {
  /** @param {number} x @param {number} y */
  const side = (x, y) => {
    const p = rows[y]?.[x];
    return p === null || p === undefined ? null : p <= delta;
  };
  let path = "";
  rows.forEach((line, y) =>
    line.forEach((_, x) => {
      const here = side(x, y);
      if (here === null) return;
      const right = side(x + 1, y);
      const above = side(x, y + 1);
      const edge = left + (x + 1) * column;
      const top = bottom - (y + 1) * row;
      if (right !== null && right !== here) path += `M${edge} ${top + row}V${top}`;
      if (above !== null && above !== here) path += `M${edge - column} ${top}H${edge}`;
    }),
  );
  return path;
}

/**
 * @param {PValueMap} map
 * @param {Layout} layout
 */
export function drawScale(map, { width, left, bottom, height, row, column, xOf, yOf }) {
  const words = (/** @type {number | null} */ value) => (value === null ? "never" : threshold(value));
  const every = Math.ceil(LABEL_ROOM / row);
  const last = map.lambda_high.length - 1;
  const turned = column < LABEL_WIDTH + roomForMore(map.lambda_low);
  const highs = map.lambda_high.flatMap((value, y) =>
    (last - y) % every ? [] : [svg("text", { class: "map-text", x: left - 6, y: yOf(y), "text-anchor": "end", dy: "0.35em" }, words(value))],
  );
  const lows = map.lambda_low.map((value, x) => {
    const at = { x: xOf(x), y: bottom + 13 };
    const how = turned
      ? { transform: `rotate(-50 ${at.x} ${at.y})`, "text-anchor": "end", dx: "0.3em" }
      : { "text-anchor": "middle", dy: "0.2em" };
    return svg("text", { class: "map-text", ...at, ...how }, words(value));
  });
  const middle = (TOP + bottom) / 2;
  const under = width < NARROW ? { x: width, "text-anchor": "end" } : { x: (left + width) / 2, "text-anchor": "middle" };
  return svg(
    "g",
    null,
    highs,
    lows,
    svg("text", { class: "map-axis", y: height - 5, ...under }, "λ1: stops for low confidence at or below"),
    svg(
      "text",
      { class: "map-axis", x: 12, y: middle, "text-anchor": "middle", transform: `rotate(-90 12 ${middle})` },
      "λ2: stops and answers at or above",
    ),
  );
}

/**
 * @param {PValueMap} map
 * @param {Layout} layout
 */
export function drawMarks(map, { row, xOf, yOf }) {
  const size = Math.min(5, Math.max(2.6, row * 0.36));
  /** @param {import("./report-data.js").Tested} one */
  const mark = (one) => {
    const [x, y] = [xOf(one.x), yOf(one.y)];
    if (one.certified) return svg("circle", { class: "map-mark", cx: x, cy: y, r: one.in_plane ? size : size * 0.45 });
    const arm = size * 0.85;
    return svg("path", { class: "map-cross", d: `M${x - arm} ${y - arm}l${2 * arm} ${2 * arm}m0 ${-2 * arm}l${-2 * arm} ${2 * arm}` });
  };
  const shown = map.tested.filter((one) => one.in_plane || one.certified);
  const once = [...new Map(shown.map((one) => [`${one.x} ${one.y} ${one.in_plane} ${one.certified}`, one])).values()];
  once.sort((a, b) => Number(a.in_plane) - Number(b.in_plane) || Number(a.certified) - Number(b.certified));
  const star = map.chosen && svg("path", { class: "map-star", d: starAt(xOf(map.chosen.x), yOf(map.chosen.y), 10) });
  return svg("g", null, once.map(mark), star);
}

/**
 * @param {number} x
 * @param {number} y
 * @param {number} size
 */
function starAt(x, y, size) {
  const corners = Array.from({ length: 10 }, (_, at) => {
    const radius = at % 2 ? size * 0.42 : size;
    const angle = (Math.PI / 5) * at - Math.PI / 2;
    return `${(x + radius * Math.cos(angle)).toFixed(2)} ${(y + radius * Math.sin(angle)).toFixed(2)}`;
  });
  return `M${corners.join("L")}Z`;
}

/**
 * Blue up to δ, the darker the smaller; orange above, the darker the larger.
 *
 * @param {number} p
 * @param {number} delta
 */
function colourOf(p, delta) {
  const smallest = Math.min(SMALLEST, delta / 1000);
  const at = Math.log10(Math.max(p, smallest));
  const edge = Math.log10(delta);
  const share = p <= delta ? (at - Math.log10(smallest)) / (edge - Math.log10(smallest)) : (at - edge) / -edge;
  return mix(p <= delta ? PASSES : FAILS, Math.max(0, Math.min(1, share)));
}

/**
 * @param {number[][]} stops
 * @param {number} share in [0, 1]
 */
function mix(stops, share) {
  const at = share * (stops.length - 1);
  const first = Math.min(stops.length - 2, Math.floor(at));
  const part = at - first;
  const [from, to] = [stops[first] ?? [], stops[first + 1] ?? []];
  return `rgb(${from.map((value, band) => Math.round(value + ((to[band] ?? 0) - value) * part)).join(" ")})`;
}
