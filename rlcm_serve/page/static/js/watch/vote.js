/** The vote among samples, filling up answer by answer. */

import { h, replace, setText } from "../dom.js";
import { count, number, percent } from "../format.js";
import { answerText } from "../math.js";

/** @typedef {import("./run.js").Vote} Vote */

/** Answers that have a row of their own. */
const SHOWN = 6;

/**
 * @param {number} samples
 * @param {number} needed least share of the vote that is answered; 0 = any
 * @param {import("../ask/question.js").Question["vote"]} kind
 * @returns {{ element: HTMLElement, draw: (vote: Vote) => void }}
 */
export function votePanel(samples, needed, kind) {
  const counts = kind === "majority" ? "one vote per sample" : "weighted by confidence";
  const state = h("p", { class: "hint" }, `0 of ${samples} counted`);
  const rows = h("ol", { class: needed ? "vote-rows needing" : "vote-rows" });
  const element = h("section", { class: "vote", "aria-labelledby": "vote-title" }, h("h2", { id: "vote-title" }, "The vote"), state, rows);
  /** @type {Map<string, { row: HTMLElement, bar: HTMLElement, figure: HTMLElement }>} */
  const known = new Map();

  /** @param {string} answer */
  function rowOf(answer) {
    let found = known.get(answer);
    if (!found) {
      const bar = h("span", { class: "vote-bar" });
      const figure = h("span", { class: "vote-figure" });
      const row = h("li", null, h("span", { class: "vote-answer" }, answerText(answer)), h("span", { class: "vote-track", "aria-hidden": "true" }, bar), figure);
      found = { row, bar, figure };
      known.set(answer, found);
    }
    return found;
  }

  return {
    element,
    draw({ counted, tally, decided, leader }) {
      setText(state, `${counted} of ${samples} counted; ${counts}${needed ? `; an answer needs ${percent(needed)} of what is counted (the mark)` : ""}${decided && counted < samples ? "; decided" : ""}`);
      const ranked = Object.entries(tally).sort(([, a], [, b]) => b - a);
      const total = ranked.reduce((sum, [, weight]) => sum + weight, 0);
      if (counted === samples && !ranked.length) state.append("; no sample gave an answer");
      rows.style.setProperty("--need", String((needed * total) / samples));
      const shown = ranked.slice(0, SHOWN).map(([answer, weight]) => {
        const { row, bar, figure } = rowOf(answer);
        // A full track is what all samples together could weigh.
        bar.style.transform = `scaleX(${Math.min(1, weight / samples)})`;
        setText(figure, `${percent(total ? weight / total : 0, 0)} · ${number(weight, 2)} of ${samples}`);
        row.classList.toggle("leader", answer === leader);
        return row;
      });
      const rest = ranked.length - shown.length;
      const more = rest > 0 && h("li", { class: "hint" }, `and ${count(rest, "more answer")}`);
      if ([...rows.children].some((row, at) => row !== shown[at]) || rows.children.length !== shown.length || more) replace(rows, shown, more);
    },
  };
}
