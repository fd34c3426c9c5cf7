/** Mathematics in model text: KaTeX, loaded when the first formula is seen. */

import { h, replace } from "./dom.js";

/**
 * What stands between $...$, $$...$$, \(...\) or \[...\]; a dollar must not be an amount of money. No part of a text is
 * searched more than a few times: a search ends where the next one begins, or it took time quadratic in the text.
 */
const FORMULA = /\$\$([^$]+)\$\$|\\\[((?:(?!\\\[)[\s\S]){1,2000}?)\\\]|\\\(((?:(?!\\\()[\s\S]){1,2000}?)\\\)|(\\boxed\{[^{}\n]*\})|\$(?!\s)(?=[^$\n]*[\\^_=+])([^$\n]+)(?<!\s)\$/g;
/** A whole text that is TeX without saying so, as answers are. */
const BARE = /^[^\s$]*\\(?:[a-zA-Z]+|[{}])[^$]*$/;

/** @type {Promise<any> | null} */
let loading = null;

/**
 * A text as nodes, its formulas rendered once KaTeX is there. Until then, and where KaTeX cannot read
 * them, they are shown as they are written.
 *
 * @param {string} text
 * @returns {(Node | string)[]}
 */
export function mathIn(text) {
  const nodes = [];
  let from = 0;
  for (const found of text.matchAll(FORMULA)) {
    const tex = found[1] ?? found[2] ?? found[3] ?? found[4] ?? found[5] ?? "";
    nodes.push(text.slice(from, found.index), formula(tex, found[0], found[1] !== undefined || found[2] !== undefined));
    from = found.index + found[0].length;
  }
  nodes.push(text.slice(from));
  return nodes;
}

/**
 * An answer: a formula if it is TeX, text otherwise.
 *
 * @param {string} answer
 * @returns {(Node | string)[]}
 */
export function answerText(answer) {
  return BARE.test(answer) ? [formula(answer, answer, false)] : mathIn(answer);
}

/**
 * @param {string} tex
 * @param {string} written
 * @param {boolean} display on a line of its own
 */
function formula(tex, written, display) {
  const node = h("span", { class: "math" }, written);
  loading ??= load();
  loading
    .then((katex) => {
      const made = h("span");
      // trust: false keeps links and images out; the DOM is built by KaTeX from its own parse.
      katex.render(tex, made, { displayMode: display, throwOnError: true, strict: false, trust: false, errorColor: "currentColor", maxExpand: 200, maxSize: 20 });
      replace(node, made);
    })
    .catch(() => {}); // it stays as it is written
  return node;
}

function load() {
  const at = (/** @type {string} */ path) => new URL(`../vendor/katex/${path}`, import.meta.url).href;
  document.head.append(h("link", { rel: "stylesheet", href: at("katex.min.css") }));
  return new Promise((resolve, reject) => {
    const script = h("script", { src: at("katex.min.js"), onload: () => resolve(/** @type {any} */ (globalThis).katex), onerror: reject });
    document.head.append(script);
  });
}
