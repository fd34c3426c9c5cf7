/** Questions that the embedded model was made for, to pick from. */

import { h, replace } from "../dom.js";

/**
 * @typedef {{ name: string, title: string, levels: { level: number, questions: string[] }[] }} Family
 */

/**
 * A row of choices that fills in a question. It stays hidden until there are examples.
 *
 * @param {() => Promise<{ families: Family[] }>} load
 * @param {(question: string) => void} onPick
 * @returns {{ element: HTMLElement, fill: () => Promise<void> }}
 */
export function picker(load, onPick) {
  /** @type {Family[]} */
  let families = [];
  let turn = 0;
  const family = h("select", { "aria-label": "Kind of question", onchange: levels });
  const level = h("select", { "aria-label": "Level", onchange: () => pick(0) });
  const another = h("button", { type: "button", class: "quiet", onclick: () => pick(turn + 1) }, "Another one");
  const element = h("div", { class: "picker row", hidden: true }, h("span", null, "Or take one it was made for:"), family, level, another);

  function chosen() {
    return families[family.selectedIndex];
  }

  function levels() {
    const kept = level.selectedIndex;
    replace(level, (chosen()?.levels ?? []).map((one) => h("option", null, `level ${one.level}`)));
    level.selectedIndex = Math.max(0, Math.min(kept, level.options.length - 1));
    pick(0);
  }

  /** @param {number} next */
  function pick(next) {
    const questions = chosen()?.levels[level.selectedIndex]?.questions ?? [];
    turn = questions.length ? next % questions.length : 0;
    const question = questions[turn];
    if (question) onPick(question);
  }

  return {
    element,
    async fill() {
      families = (await load()).families;
      replace(family, families.map((one) => h("option", null, one.title)));
      const middle = Math.min(1, families.length - 1);
      family.selectedIndex = Math.max(middle, 0);
      replace(level, (chosen()?.levels ?? []).map((one) => h("option", null, `level ${one.level}`)));
      level.selectedIndex = Math.min(2, level.options.length - 1);
      turn = -1;
      element.hidden = families.length === 0;
    },
  };
}
