/** One figure, large, with its name and what it is out of. */

import { h, setText } from "../dom.js";

/**
 * @param {string} name
 * @returns {{ element: HTMLElement, set: (text: string, of: string, share?: number) => void }} `share`: of
 *   what there could be, drawn as a bar
 */
export function tile(name) {
  const value = h("dd");
  const note = h("dd", { class: "tile-note" });
  const fill = h("div", { class: "bar-fill" });
  const track = h("dd", { class: "bar-track", "aria-hidden": "true" }, fill);
  return {
    element: h("dl", { class: "tile" }, h("dt", null, name), value, note, track),
    set(text, of, share) {
      setText(value, text);
      setText(note, of);
      track.hidden = share === undefined;
      fill.style.width = `${Math.max(0, Math.min(100, 100 * (share ?? 0)))}%`;
    },
  };
}
