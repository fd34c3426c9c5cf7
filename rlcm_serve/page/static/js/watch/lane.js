/** One sample: its text as it is generated, its confidence, its exit. */

import { h, replace, setText } from "../dom.js";
import { EXITS } from "../exits.js";
import { confidence, number, tokens } from "../format.js";
import { answerText, mathIn } from "../math.js";
import { curve } from "./curve.js";
import { readingDecimals } from "./rule.js";

/**
 * @typedef {import("./run.js").Sample} Sample
 * @typedef {import("./curve.js").Size} Size
 *
 * @typedef {object} Lane
 * @property {HTMLElement} element
 * @property {() => boolean} draw as its sample is now; whether a curve was made, which takes long
 * @property {() => void} freeze nothing more will come
 * @property {() => void} reveal draws its curve, near the window or not
 * @property {() => void} destroy
 */

/** Characters of a folded text: more than the lines it shows can hold. */
const FOLDED = { solo: 1400, wide: 700, medium: 260 };

/** Characters that surely fit into the lines a folded text shows. */
const VISIBLE = { solo: 300, wide: 120, medium: 50 };

/**
 * The size of lanes, when there are so many.
 *
 * @param {number} samples
 * @returns {Size}
 */
export function sizeFor(samples) {
  if (samples === 1) return "solo";
  return samples <= 4 ? "wide" : "medium";
}

/**
 * @param {Sample} sample
 * @param {import("./curve.js").Terms} terms
 * @param {Size} size
 * @param {() => void} wake asks for a draw
 * @returns {Lane}
 */
export function lane(sample, terms, size, wake) {
  const name = `Sample ${sample.index + 1}`;
  const decimals = readingDecimals(terms.policy);
  const reading = h("span", { class: "lane-reading" });
  const spent = h("span", { class: "lane-spent" });
  const exit = h("span", { class: "lane-exit" });
  const answer = h("span", { class: "lane-answer" });
  const canvas = h("div", { class: "lane-curve", role: "img", "aria-label": `${name}: no reading yet` });
  const text = document.createTextNode("");
  const words = h("div", { class: "lane-words", "data-empty": "reading the question" }, text);
  const prose = h("div", { class: "lane-text" }, words);
  const unfold = "Show all";
  const fold = h("button", { type: "button", class: "quiet lane-fold waiting", "aria-expanded": "false", "aria-label": `Show all of ${name}`, onclick: toggle }, unfold);
  const element = h(
    "article",
    { class: `lane ${size}`, "aria-label": name, "data-exit": "none" },
    h("header", { class: "lane-head" }, h("h3", null, name), reading, spent, exit, answer),
    canvas,
    h("div", { class: "lane-prose" }, prose, fold),
  );
  const line = curveWhenNear(canvas, () => curve(canvas, sample, terms, size), wake);

  let open = false;
  let drawn = -1;
  let ended = false;

  function toggle() {
    open = !open;
    fold.setAttribute("aria-expanded", String(open));
    element.classList.toggle("open", open);
    setText(fold, open ? "Fold" : unfold);
    fold.setAttribute("aria-label", `${open ? "Fold" : "Show all of"} ${name}`);
    // What scrolls must be reached by keyboard.
    const scrolls = { tabindex: "0", role: "region", "aria-label": `Text of ${name}` };
    for (const [key, value] of Object.entries(scrolls)) open ? prose.setAttribute(key, value) : prose.removeAttribute(key);
    drawText();
  }

  function drawText() {
    const length = sample.text.length + sample.answerText.length;
    fold.classList.toggle("waiting", !open && length < VISIBLE[size]);
    if (open && sample.exit) return replace(words, mathIn(tidy(written(sample))));
    const least = FOLDED[size];
    const cut = !open && length > least;
    const shown = cut ? `… ${tidy(written(sample).slice(-least))}` : tidy(written(sample));
    if (words.firstChild !== text) replace(words, text);
    if (text.data !== shown) text.data = shown;
  }

  function drawHead() {
    const last = sample.readings[sample.readings.length - 1];
    setText(reading, last === undefined ? "" : `confidence ${confidence(last, decimals)}`);
    setText(spent, tokens(sample.exit?.tokens ?? sample.tokens));
    if (!sample.exit) return;
    const { mark, word, meaning } = EXITS[sample.exit.exit];
    element.dataset.exit = sample.exit.exit;
    exit.title = meaning;
    replace(exit, h("span", { "aria-hidden": "true" }, mark), ` ${word}`);
    if (sample.end?.answer != null) replace(answer, "says ", h("b", null, answerText(sample.end.answer)));
    canvas.setAttribute("aria-label", described(name, sample, terms.budget, decimals));
  }

  function drawLine() {
    const version = sample.at.length * 2 + (sample.exit ? 1 : 0);
    if (version === drawn) return;
    drawn = version;
    line.changed();
    if (!sample.exit) canvas.setAttribute("aria-label", onItsWay(name, sample, decimals));
  }

  return {
    element,
    draw() {
      if (!ended) drawHead();
      drawText();
      drawLine();
      if (sample.end) ended = true;
      return line.draw();
    },
    freeze() {
      if (sample.exit) return;
      element.dataset.exit = "stopped";
      replace(exit, h("span", { "aria-hidden": "true" }, "✕"), " cut off");
      canvas.setAttribute("aria-label", described(name, sample, terms.budget, decimals));
    },
    reveal: line.reveal,
    destroy: line.destroy,
  };
}

/** @param {Sample} sample @returns {string} */
function written({ text, answerText }) {
  return answerText ? `${text}\n${answerText}` : text;
}

/** Without the empty lines that take up a fold's room. @param {string} text */
function tidy(text) {
  return text.replace(/\n\s*\n/g, "\n").trimStart();
}

/**
 * A curve that is made and drawn only once its lane is near the window, or all of them are wanted.
 *
 * @param {HTMLElement} canvas
 * @param {() => ReturnType<typeof curve>} make
 * @param {() => void} wake asks for a draw
 */
function curveWhenNear(canvas, make, wake) {
  /** @type {ReturnType<typeof curve> | null} */
  let made = null;
  let near = false;
  let wanted = false;
  let stale = true;
  const watcher = new IntersectionObserver(
    (entries) => {
      near = entries.some((entry) => entry.isIntersecting);
      if (near && stale) wake();
    },
    { rootMargin: "300px" },
  );
  watcher.observe(canvas);
  return {
    changed() {
      stale = true;
    },
    draw() {
      if (!stale || !(near || wanted)) return false;
      stale = false;
      if (made) {
        made.draw();
        return false;
      }
      made = make();
      return true;
    },
    reveal() {
      wanted = true;
      if (stale) wake();
    },
    destroy() {
      watcher.disconnect();
      made?.destroy();
    },
  };
}

/**
 * The latest reading alone: what a curve is called while it grows.
 *
 * @param {string} name
 * @param {Sample} sample
 * @param {number} decimals
 */
function onItsWay(name, { at, readings }, decimals) {
  const last = at.length - 1;
  if (last < 0) return `${name}: no reading yet`;
  return `${name}: confidence ${confidence(readings[last] ?? NaN, decimals)} after ${tokens(at[last] ?? 0)}`;
}

/**
 * The whole curve, once nothing more comes.
 *
 * @param {string} name
 * @param {Sample} sample
 * @param {number} budget
 * @param {number} decimals
 */
function described(name, sample, budget, decimals) {
  const { exit, at, readings } = sample;
  const path = at.map((tokens, i) => `${number(tokens)}: ${confidence(readings[i] ?? NaN, decimals)}`).join(", ");
  return (
    `${name}: ${exit ? EXITS[exit.exit].word : "cut off"} after ${number(exit?.tokens ?? sample.tokens)} of ${tokens(budget)}. ` +
    `Confidence by tokens: ${path || "no reading"}.`
  );
}
