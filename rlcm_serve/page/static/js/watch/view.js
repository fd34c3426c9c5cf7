/** The lanes of one question, its vote and its outcome. */

import { h, replace, setText } from "../dom.js";
import { count, number, percent, tokens } from "../format.js";
import { frames } from "./frames.js";
import { lane, sizeFor } from "./lane.js";
import { otherLevels } from "./others.js";
import { resultPanel } from "./result.js";
import { Run } from "./run.js";
import { votePanel } from "./vote.js";

/**
 * @typedef {import("../ask/question.js").Question} Question
 * @typedef {import("../ask/levels.js").Level} Level
 * @typedef {import("./lane.js").Lane} Lane
 *
 * @typedef {object} Watch
 * @property {HTMLElement} element
 * @property {Run} run
 * @property {(name: string, data: any) => void} take an event of the stream
 * @property {(levels: Level[]) => { heading: HTMLElement, spoken: string }} finish shows the outcome,
 *   beside that of the certificate's other levels
 * @property {() => void} cut no more events will come, and there is no outcome
 * @property {() => void} destroy
 */

/**
 * @param {Question} question
 * @param {(start: import("./run.js").Start) => number | null} [usual] tokens of one sample that is not
 *   stopped early, on average, where it is known
 * @returns {Watch}
 */
export function watch(question, usual) {
  const run = new Run();
  const terms = h("p", { class: "terms" }, "Waiting for the model …");
  const outcome = h("div", { class: "outcome" });
  const grid = h("div", { class: "lanes" });
  const element = h("div", { class: "watch", "aria-busy": "true" }, outcome, terms, grid);
  /** @type {Lane[]} */
  let lanes = [];
  /** @type {ReturnType<typeof votePanel> | null} */
  let vote = null;
  /** @type {ReturnType<typeof frames<number | "vote">>} */
  const batch = frames((what) => {
    if (what !== "vote") return lanes[what]?.draw();
    if (run.vote) vote?.draw(run.vote);
    return false;
  });

  function begin() {
    const { start, samples } = run;
    if (!start) return;
    replace(terms, termsOf(run));
    const { policy, max_tokens } = start;
    if (!policy) return;
    const size = sizeFor(samples.length);
    grid.classList.add(size);
    lanes = samples.map((sample) => lane(sample, { policy, budget: max_tokens, usual: usual?.(start) ?? null }, size, () => batch.touch(sample.index)));
    replace(grid, lanes.map((one) => one.element));
    if (samples.length > 1) {
      vote = votePanel(samples.length, policy.lambda_vote ?? 0);
      element.insertBefore(vote.element, grid);
    }
  }

  function end() {
    element.setAttribute("aria-busy", "false");
    for (const one of lanes) one.reveal(); // also those out of sight: for printing, and for who scrolls fast
  }

  return {
    element,
    run,
    take(name, data) {
      const sample = run.apply(name, data);
      if (name === "start") begin();
      else if (name === "vote") batch.touch("vote");
      else if (sample) batch.touch(sample.index);
    },
    finish(levels) {
      end();
      const panel = resultPanel(question, run);
      replace(outcome, panel.element);
      const served = run.start?.guarantee?.alpha_certified;
      const others = served === undefined ? null : otherLevels(levels, served, run);
      if (others) element.append(others);
      return panel;
    },
    cut() {
      end();
      if (!run.start) setText(terms, "");
      for (const one of lanes) one.freeze();
    },
    destroy() {
      batch.stop();
      for (const one of lanes) one.destroy();
      element.remove();
    },
  };
}

/**
 * Makes one lane that nobody sees. The first plot of a page takes several times as long as any other:
 * better before there is a stream to keep up with.
 */
export function warmUp() {
  const sample = { index: 0, text: "", answerText: "", tokens: 32, at: [32], readings: [0.5], finalRead: false, exit: null, end: null };
  const made = lane(sample, { policy: { lambda_low: 0.4, lambda_high: 0.9 }, budget: 960, usual: 450 }, "medium", () => {});
  const place = h("div", { class: "unseen", "aria-hidden": "true" }, made.element);
  document.body.append(place);
  made.reveal();
  made.draw();
  made.destroy();
  place.remove();
}

/** @param {Run} run */
function termsOf({ start, samples }) {
  if (!start) return [];
  if (!start.policy) return ["No token is drawn."];
  const { guarantee, max_tokens } = start;
  const each = samples.length > 1 ? `${count(samples.length, "sample")}, each with ${tokens(max_tokens)}` : `Up to ${tokens(max_tokens)}`;
  const under = guarantee
    ? `under the rule certified for α = ${percent(guarantee.alpha_certified)}`
    : `without a guarantee: ${start.no_guarantee_reason ?? ""}`;
  return [`${each} to think, ${under}.`];
}

/** @param {Run} run @returns {string} how far it is, for those who stopped it */
export function progress(run) {
  const ended = run.samples.filter((one) => one.exit).length;
  const of = run.samples.length > 1 ? `, ${ended} of ${number(run.samples.length)} samples had ended` : "";
  return `${tokens(run.tokens)} had been drawn${of}`;
}
