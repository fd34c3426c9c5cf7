/** The vote among samples, filling up answer by answer. */

import { h, replace, setText } from "../dom.js";
import { count, measured, percent } from "../format.js";
import { answerText } from "../math.js";

/** @typedef {import("./run.js").Vote} Vote */

/** Answers that have a row of their own. */
const SHOWN = 4;

/**
 * The weight of all samples that were counted. Those without an answer weigh too, and are in no tally.
 *
 * @param {Vote["tally"]} tally
 * @param {Vote["leader"]} leader
 * @param {number} share of the leader
 */
export function totalOf(tally, leader, share) {
  const led = leader === null ? undefined : tally[leader];
  return led && share > 0 ? led / share : Object.values(tally).reduce((sum, weight) => sum + weight, 0);
}

/**
 * @param {number} samples
 * @param {import("../ask/question.js").Question["vote"]} kind
 * @returns {{ element: HTMLElement, need: (share: number) => void, draw: (vote: Vote) => void }} `need`: the least
 *   share of the vote that is answered; 0 = any
 */
export function votePanel(samples, kind) {
  let needed = 0;
  const counts = kind === "majority" ? "one vote per sample" : "weighted by confidence";
  const state = h("p", { class: "hint" }, `0 of ${samples} counted`);
  const rows = h("ol", { class: "vote-rows" });
  rows.style.setProperty("--rows", String(samples > SHOWN ? SHOWN + 1 : samples)); // their room is kept
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
    need(share) {
      needed = share;
      rows.classList.toggle("needing", share > 0);
      rows.style.setProperty("--need", String(share));
    },
    draw({ counted, tally, decided, leader, share: won }) {
      const mark = needed ? `; an answer needs ${percent(needed)} (the mark)` : "";
      setText(state, `${counted} of ${samples} counted, ${counts}${mark}${decided && counted < samples ? "; decided" : ""}`);
      const ranked = Object.entries(tally).sort(([one, a], [other, b]) => b - a || Number(other === leader) - Number(one === leader));
      const total = totalOf(tally, leader, won);
      if (counted === samples && !ranked.length) state.append("; no sample gave an answer");
      const shown = ranked.slice(0, SHOWN).map(([answer, weight]) => {
        const { row, bar, figure } = rowOf(answer);
        const share = total ? weight / total : 0;
        bar.style.transform = `scaleX(${share})`;
        setText(figure, measured(share));
        row.classList.toggle("leader", answer === leader);
        return row;
      });
      const rest = ranked.length - shown.length;
      const more = rest > 0 && h("li", { class: "hint" }, `and ${count(rest, "more answer")}`);
      if ([...rows.children].some((row, at) => row !== shown[at]) || rows.children.length !== shown.length || more) replace(rows, shown, more);
    },
  };
}
