/** Named amounts as a list with bars, changed in place so that nothing jumps. */

import { h, replace, setText } from "../dom.js";

/**
 * @typedef {object} Bar
 * @property {string} name
 * @property {string} [mark] a shape before it
 * @property {string} [role] colour of mark and bar; "blue"
 * @property {string} [note] what it means, in a few words
 * @property {number} share length of the bar, in [0, 1]
 * @property {string} text the amount with its unit
 */

/**
 * @param {string} label of the list
 * @returns {{ element: HTMLElement, update: (bars: Bar[]) => void }}
 */
export function barList(label) {
  const element = h("ul", { class: "bar-list", "aria-label": label });
  let names = "";
  /** @type {{ text: HTMLElement, note: HTMLElement, bar: HTMLElement }[]} */
  let rows = [];

  /** @param {Bar[]} bars */
  function build(bars) {
    rows = bars.map(() => ({
      text: h("span", { class: "bar-text" }),
      note: h("small", { class: "bar-note" }),
      bar: h("div", { class: "bar-fill" }),
    }));
    const items = bars.map(({ name, mark, role = "blue" }, at) => {
      const colour = `var(--${role})`;
      const row = rows[at];
      if (row) row.bar.style.background = colour;
      return h(
        "li",
        null,
        h("span", { class: "bar-name" }, mark && h("span", { class: "bar-mark", "aria-hidden": "true", style: { color: colour } }, mark), name),
        row?.text,
        row?.note,
        h("div", { class: "bar-track", "aria-hidden": "true" }, row?.bar),
      );
    });
    replace(element, items);
  }

  return {
    element,
    update(bars) {
      const next = bars.map(({ name }) => name).join("\n");
      if (next !== names) build(bars);
      names = next;
      bars.forEach(({ share, text, note = "" }, at) => {
        const row = rows[at];
        if (!row) return;
        setText(row.text, text);
        setText(row.note, note);
        row.bar.style.width = `${Math.max(0, Math.min(100, 100 * share))}%`;
      });
    },
  };
}
