/** A hundred recorded questions as dots, each where it always stands: right, wrong or abstained. */

import { h, setText, svg, uniqueId } from "../dom.js";

/**
 * @typedef {import("./replay.js").Outcome} Outcome
 *
 * @typedef {object} Dots
 * @property {HTMLElement} element
 * @property {(outcomes: Outcome[], chosen: number) => void} draw
 */

/** Paths in a box of 16. @type {Record<Outcome, string>} */
export const SHAPES = {
  right: "M8 2.5a5.5 5.5 0 1 1 0 11a5.5 5.5 0 1 1 0-11z",
  wrong: "M3 3l10 10M13 3l-10 10",
  abstained: "M3.5 3.5h9v9h-9z",
};
const COLUMNS = 10;
/** @type {Record<string, number>} */
const STEPS = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -COLUMNS, ArrowDown: COLUMNS };

/**
 * @param {number} count
 * @param {(at: number) => void} choose
 * @returns {Dots}
 */
export function dots(count, choose) {
  const id = uniqueId("dot");
  /** @type {(Outcome | null)[]} */
  const shown = Array(count).fill(null);
  let chosen = -1;
  const paths = shown.map(() => svg("path"));
  const items = paths.map((path, at) =>
    h("span", { role: "option", id: `${id}-${at}`, class: "dot", onclick: () => choose(at) }, svg("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, path)),
  );
  const element = h(
    "div",
    {
      class: "dots",
      role: "listbox",
      tabindex: 0,
      "aria-label": "The recorded questions",
      onkeydown: (/** @type {KeyboardEvent} */ event) => {
        const step = STEPS[event.key];
        if (!step) return;
        event.preventDefault();
        choose(Math.min(count - 1, Math.max(0, chosen + step)));
      },
    },
    items,
  );
  return {
    element,
    draw(outcomes, next) {
      outcomes.forEach((outcome, at) => {
        if (shown[at] === outcome) return;
        shown[at] = outcome;
        paths[at]?.setAttribute("d", SHAPES[outcome]);
        const item = items[at];
        if (!item) return;
        item.dataset.outcome = outcome;
        item.setAttribute("aria-label", `Question ${at + 1}: ${outcome}`);
      });
      if (next === chosen) return;
      items[chosen]?.removeAttribute("aria-selected");
      items[next]?.setAttribute("aria-selected", "true");
      element.setAttribute("aria-activedescendant", `${id}-${next}`);
      chosen = next;
    },
  };
}

/** The shape of an outcome, to stand in a text. @param {Outcome} outcome */
export function sign(outcome) {
  return h("span", { class: "dot", "data-outcome": outcome }, svg("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, svg("path", { d: SHAPES[outcome] })));
}

/**
 * What the shapes mean, and how many there are of each.
 *
 * @returns {{ element: HTMLElement, draw: (outcomes: Outcome[]) => void }}
 */
export function legend() {
  const names = /** @type {Outcome[]} */ (Object.keys(SHAPES));
  const counts = names.map(() => h("b"));
  const element = h("ul", { class: "dots-legend" }, names.map((name, at) => h("li", null, sign(name), counts[at], ` ${name}`)));
  return {
    element,
    draw(outcomes) {
      names.forEach((name, at) => setText(/** @type {HTMLElement} */ (counts[at]), String(outcomes.filter((one) => one === name).length)));
    },
  };
}
