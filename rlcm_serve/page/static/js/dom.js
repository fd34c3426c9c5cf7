/** Building the page: elements, never markup. Text is text, whoever wrote it. */

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * An element with attributes and children.
 *
 * Of attributes: `on...` with a function listens; `class`, `aria-*`, `data-*` and all others are set
 * as written; `true` sets an empty one, `false`, null and undefined none; `style` takes an object of
 * CSS properties. Children that are null, undefined or false are left out.
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, unknown> | null} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/**
 * The same for SVG.
 *
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, unknown> | null} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/**
 * Puts children in place of whatever is in a node.
 *
 * @param {Element} node
 * @param {...(Child | Child[])} children
 */
export function replace(node, ...children) {
  node.replaceChildren(...present(children));
}

/**
 * Renews what is in a node while somebody may be reading it: details that are open stay open, and the focus stays at
 * its place, where as many are there as before.
 *
 * @param {Element} node
 * @param {() => void} renewal
 */
export function renew(node, renewal) {
  const folds = () => [...node.querySelectorAll("details")];
  const targets = () => [...node.querySelectorAll("a, button, summary, [tabindex]")];
  const [open, before] = [folds().map((one) => one.open), targets()];
  const focused = before.findIndex((one) => one === document.activeElement);
  renewal();
  const [now, after] = [folds(), targets()];
  if (now.length === open.length) now.forEach((one, at) => (one.open = open[at] ?? one.open));
  const target = after.length === before.length && after[focused];
  if (target instanceof HTMLElement) target.focus({ preventScroll: true });
}

/**
 * Sets a node's text if it differs, so that nothing is laid out anew for nothing.
 *
 * @param {Node} node
 * @param {string} text
 */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/**
 * The element of that id, which the page must have.
 *
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no element of id ${id}`);
  return found;
}

let ids = 0;

/**
 * An id that nothing else on the page has.
 *
 * @param {string} stem
 */
export function uniqueId(stem) {
  ids += 1;
  return `${stem}-${ids}`;
}

/**
 * @template {HTMLElement | SVGElement} Made
 * @param {Made} node
 * @param {Record<string, unknown> | null | undefined} attributes
 * @param {(Child | Child[])[]} children
 * @returns {Made}
 */
function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on") && typeof value === "function") {
      node.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    } else if (name === "style") {
      Object.assign(node.style, value); // by CSSOM: the page's policy allows no style attribute
    } else {
      node.setAttribute(name, value === true ? "" : String(value));
    }
  }
  node.append(...present(children));
  return node;
}

/**
 * @param {(Child | Child[])[]} children
 * @returns {(Node | string)[]}
 */
function present(children) {
  const kept = [];
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    kept.push(child instanceof Node ? child : String(child));
  }
  return kept;
}
