/** One recorded question: its confidence, the lines that α sets, and where they stop it. */

import { h, replace, svg } from "../dom.js";
import { confidence, number } from "../format.js";
import { spread } from "../watch/gutter.js";
import { ticksUpTo } from "../watch/reach.js";
import { canStopHigh, canStopLow } from "../watch/rule.js";
import { SHAPES } from "./dots.js";
import { outcomeAt } from "./replay.js";

/**
 * @typedef {import("./replay.js").Recorded} Recorded
 * @typedef {import("./replay.js").Replayed} Replayed
 * @typedef {import("./replay.js").Outcome} Outcome
 * @typedef {import("../watch/run.js").Policy} Policy
 *
 * @typedef {object} Chart
 * @property {HTMLElement} element
 * @property {(recorded: Recorded, policy: Policy, end: Replayed, upTo?: number) => void} draw `upTo`: only the
 *   readings up to this one are there yet
 */

const HEIGHT = 210;
const MARGIN = { top: 14, right: 122, bottom: 40, left: 34 };
/** From one label to the next, CSS pixels. */
const LINE = 16;

/** @returns {Chart} */
export function chart() {
  const field = svg("svg", { class: "demo-chart", height: HEIGHT, role: "img" });
  const element = h("div", { class: "demo-curve" }, field);
  /** @type {Parameters<Chart["draw"]> | null} */
  let last = null;
  const line = (/** @type {string} */ name) => svg("g", { class: `demo-line ${name}` }, svg("rect"), svg("line"));
  const parts = {
    axes: svg("g", { class: "demo-axes" }),
    high: line("high"),
    low: line("low"),
    gate: svg("g", { class: "demo-gate" }, svg("line", { class: "abstains" }), svg("line", { class: "answers" })),
    rest: svg("polyline", { class: "demo-rest" }),
    done: svg("polyline", { class: "demo-done" }),
    marks: svg("g", { class: "demo-marks" }),
    stop: svg("g", {}, svg("line"), svg("circle", { r: 11 }), svg("path")),
    labels: svg("g", { class: "demo-labels" }),
  };
  field.append(...Object.values(parts));
  let width = 0;
  new ResizeObserver(() => {
    const next = Math.floor(element.clientWidth);
    if (next === width || next < 120) return;
    width = next;
    if (last) draw(...last);
  }).observe(element);

  /** @type {Chart["draw"]} */
  function draw(recorded, policy, end, upTo = recorded.tokens.length - 1) {
    last = [recorded, policy, end, upTo];
    if (!width) return;
    field.setAttribute("width", String(width));
    field.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const { tokens, confidence: read } = recorded;
    const [right, bottom, whole] = [width - MARGIN.right, HEIGHT - MARGIN.bottom, tokens.at(-1) ?? 1];
    const x = (/** @type {number} */ value) => MARGIN.left + (value / whole) * (right - MARGIN.left);
    const y = (/** @type {number} */ value) => bottom - (value / 1.04) * (bottom - MARGIN.top);
    const points = tokens.map((at, i) => `${x(at).toFixed(1)},${y(read[i] ?? 0).toFixed(1)}`);
    const stopped = Math.min(end.stop, upTo);
    parts.done.setAttribute("points", points.slice(0, stopped + 1).join(" "));
    parts.rest.setAttribute("points", upTo < end.stop ? "" : points.slice(end.stop).join(" "));
    replace(parts.axes, axes(x, y, whole, width));
    replace(parts.marks, tokens.map((at, i) => i <= upTo && reading(x(at), y(read[i] ?? 0), outcomeAt(recorded, i), i <= end.stop)));

    const patience = x(Math.min(policy.patience ?? 0, whole)); // before that nothing has been low for long enough
    place(parts.high, canStopHigh(policy), y(policy.lambda_high), MARGIN.left, right, MARGIN.top - y(policy.lambda_high));
    place(parts.low, canStopLow(policy), y(policy.lambda_low), patience, right, bottom - y(policy.lambda_low));
    const least = y(policy.lambda_answer ?? 0);
    const [abstains, answers] = parts.gate.children;
    if (abstains) set(abstains, { x1: right, x2: right, y1: least, y2: bottom });
    if (answers) set(answers, { x1: right, x2: right, y1: y(1), y2: least });
    replace(parts.labels, labelsOf(policy, y, bottom).map((one) => svg("text", { class: one.role, x: right + 9, y: one.y, "dominant-baseline": "central" }, one.text)));

    parts.stop.setAttribute("class", `demo-stop ${end.exit} ${end.outcome}${upTo < end.stop ? " waiting" : ""}`);
    parts.stop.style.transform = `translateX(${x(tokens[end.stop] ?? 0)}px)`;
    const [rule, ring, shape] = parts.stop.children;
    const at = y(read[end.stop] ?? 0);
    if (rule) set(rule, { x1: 0, x2: 0, y1: MARGIN.top, y2: bottom });
    if (ring) set(ring, { cy: at });
    if (shape) draws(shape, end.outcome, 0, at, 0.9);
    field.setAttribute("aria-label", `Confidence by tokens: ${tokens.map((one, i) => `${number(one)}: ${confidence(read[i] ?? 0)}`).join(", ")}. It stops at ${number(tokens[end.stop] ?? 0)}: ${end.outcome}.`);
  }

  return { element, draw };
}

/**
 * What each line does, right of the plot.
 *
 * @param {Policy} policy
 * @param {(confidence: number) => number} y
 * @param {number} bottom
 */
function labelsOf(policy, y, bottom) {
  const least = policy.lambda_answer ?? 0;
  /** @type {{ y: number, text: string, role: string }[]} */
  const labels = [{ y: y((1 + least) / 2), text: "at end: answers", role: "green" }];
  if (canStopHigh(policy)) labels.push({ y: y(policy.lambda_high), text: "early: answers", role: "blue" });
  if (canStopLow(policy)) labels.push({ y: y(policy.lambda_low), text: "early: abstains", role: "orange" });
  if (least > 0) labels.push({ y: y(least / 2), text: "at end: abstains", role: "grey" });
  return spread(labels, bottom, LINE);
}

/**
 * @param {(value: number) => number} x
 * @param {(value: number) => number} y
 * @param {number} whole tokens at the end
 * @param {number} width
 */
function axes(x, y, whole, width) {
  const text = (/** @type {number} */ at, /** @type {number} */ down, /** @type {string} */ words, /** @type {string} */ anchor) =>
    svg("text", { x: at, y: down, "text-anchor": anchor }, words);
  const under = HEIGHT - MARGIN.bottom + 17;
  return [
    ...[0, 0.5, 1].flatMap((value) => [
      svg("line", { x1: x(0), x2: x(whole), y1: y(value), y2: y(value) }),
      text(x(0) - 6, y(value) + 4, String(value), "end"),
    ]),
    ...ticksUpTo(whole, width > 500 ? 6 : 3).map((at) => text(x(at), under, number(at), "middle")),
    text(x(whole) + 9, under, "tokens", "start"),
  ];
}

/**
 * A reading: its shape says whether an answer there is right, or cannot be read.
 *
 * @param {number} x
 * @param {number} y
 * @param {Outcome} outcome
 * @param {boolean} taken before the stop or at it
 */
function reading(x, y, outcome, taken) {
  const shape = svg("path", { class: taken ? outcome : `${outcome} later` });
  draws(shape, outcome, x, y, 0.6);
  return shape;
}

/**
 * @param {Element} path
 * @param {Outcome} outcome
 * @param {number} x of its middle
 * @param {number} y
 * @param {number} size of 16 pixels
 */
function draws(path, outcome, x, y, size) {
  path.setAttribute("d", SHAPES[outcome]);
  path.setAttribute("transform", `translate(${(x - 8 * size).toFixed(1)} ${(y - 8 * size).toFixed(1)}) scale(${size})`);
}

/**
 * @param {SVGElement} group
 * @param {boolean} there
 * @param {number} y
 * @param {number} left
 * @param {number} right
 * @param {number} to where its zone ends, from the line
 */
function place(group, there, y, left, right, to) {
  group.style.display = there ? "" : "none";
  group.style.transform = `translateY(${y}px)`;
  const [zone, line] = group.children;
  if (zone) set(zone, { x: left, y: Math.min(0, to), width: right - left, height: Math.abs(to) });
  if (line) set(line, { x1: left, x2: right, y1: 0, y2: 0 });
}

/**
 * @param {Element} node
 * @param {Record<string, number>} values
 */
function set(node, values) {
  for (const [name, value] of Object.entries(values)) node.setAttribute(name, value.toFixed(1));
}
