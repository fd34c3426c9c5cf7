/** The mark of each state of trust: a shape of its own, filled only where a promise covers the answer. */

import { svg } from "../dom.js";

/** @typedef {import("./trust-state.js").Verdict["state"]} Name */

/** Paths in a box of 24: the outline, then what is in it. */
const SHAPES = {
  pending: ["M12 3a9 9 0 1 1 0 18a9 9 0 1 1 0-18z", "M8 12h.01M12 12h.01M16 12h.01"],
  guaranteed: ["M12 2l8 3v6c0 5-3.4 8.8-8 11c-4.6-2.2-8-6-8-11V5z", "M8 12l3 3 5-6"],
  weak: ["M12 3a9 9 0 1 1 0 18a9 9 0 1 1 0-18z", "M12 12V3M12 12l-8 4M12 12l8 4"],
  none: ["M12 2l8 3v6c0 5-3.4 8.8-8 11c-4.6-2.2-8-6-8-11V5z", ""],
  unfamiliar: ["M12 2.5L22.5 21h-21z", "M12 9.5v5.5M12 18h.01"],
  withdrawn: ["M8 2.5h8L21.5 8v8L16 21.5H8L2.5 16V8z", "M8.5 8.5l7 7M15.5 8.5l-7 7"],
  abstained: ["M3.5 3.5h17v17h-17z", "M8 12h8"],
};

/**
 * @param {Name} name
 * @returns {SVGElement}
 */
export function badge(name) {
  const [outline, inside] = SHAPES[name];
  return svg(
    "svg",
    { class: "badge", viewBox: "0 0 24 24", "aria-hidden": "true" },
    svg("path", { class: "badge-outline", d: outline }),
    inside && svg("path", { class: "badge-inside", d: inside }),
  );
}
