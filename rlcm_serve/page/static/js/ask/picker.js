/** Questions that the embedded model was made for, to pick from. */

import { h, replace, setText } from "../dom.js";

/**
 * @typedef {{ name: string, title: string, note: string, levels: { level: number, questions: string[] }[] }} Family
 */

/**
 * A row of choices that fills in a question. What was written by hand can be taken back. It stays hidden
 * until there are examples.
 *
 * @param {() => Promise<{ families: Family[] }>} load
 * @param {{ read: () => string, write: (question: string) => void, focus: () => void }} field that
 *   the question is in
 * @returns {{ element: HTMLElement, fill: () => Promise<void> }}
 */
export function picker(load, field) {
  /** @type {Family[]} */
  let families = [];
  let turn = 0;
  let own = "";
  const family = h("select", { "aria-label": "Kind of question", onchange: levels });
  const level = h("select", { "aria-label": "Level", onchange: () => pick(0) });
  const another = h("button", { type: "button", class: "quiet", onclick: () => pick(turn + 1) }, "Another example");
  const back = h("button", { type: "button", class: "quiet", hidden: true, onclick: takeBack }, "Back to my own");
  const note = h("p", { class: "hint" });
  const element = h("div", { hidden: true }, h("div", { class: "picker row" }, h("span", null, "Or try an example:"), family, level, another, back), note);

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
    if (!question) return;
    const written = field.read();
    if (written && !isExample(written)) own = written;
    back.hidden = !own;
    field.write(question);
    setText(note, chosen()?.note ?? "");
  }

  function takeBack() {
    field.write(own);
    setText(note, "");
    field.focus();
    own = "";
    back.hidden = true;
  }

  /** @param {string} question */
  function isExample(question) {
    return families.some((one) => one.levels.some(({ questions }) => questions.includes(question)));
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
