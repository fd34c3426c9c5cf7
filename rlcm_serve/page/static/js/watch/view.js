/** The lanes of one question, its vote and its outcome. */

import { h, replace, setText } from "../dom.js";
import { count, number, percent, threshold, tokens } from "../format.js";
import { crowd } from "./crowd.js";
import { frames } from "./frames.js";
import { lane, sizeFor } from "./lane.js";
import { otherLevels } from "./others.js";
import { answerPlace } from "./result.js";
import { canStopHigh, canStopLow } from "./rule.js";
import { Run } from "./run.js";
import { story } from "./story.js";
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

/** Samples that have a lane each; more of them share one plot. */
const MOST_LANES = 8;

/**
 * @param {Question} question
 * @param {(start: import("./run.js").Start) => number | null} [usual] tokens of one sample that is not
 *   stopped early, on average, where it is known
 * @returns {Watch}
 */
export function watch(question, usual) {
  const run = new Run();
  const terms = h("p", { class: "terms" }, "Waiting for the model …");
  const place = answerPlace(question);
  const grid = h("div", { class: "lanes" });
  const after = h("div", { class: "after" });
  const element = h("div", { class: "watch", "aria-busy": "true" }, place.element, terms, grid, after);
  /** @type {Lane[]} */
  let lanes = [];
  const vote = question.n > 1 ? votePanel(question.n, question.vote) : null;
  if (vote) place.beside.append(vote.element);
  /** @type {Level[]} */
  let certified = [];
  /** @type {import("./crowd.js").Crowd | null} */
  let all = null;
  /** @type {ReturnType<typeof frames<number | "vote" | "others" | "crowd">>} */
  const batch = frames((what) => {
    if (what === "others") return showOthers();
    if (what === "crowd") return all?.draw();
    if (what !== "vote") return all ? all.update(what) : lanes[what]?.draw();
    if (run.vote) vote?.draw(run.vote);
    return false;
  });

  function begin() {
    const { start, samples } = run;
    if (!start) return;
    replace(terms, termsOf(run));
    place.begin(start);
    const isUnfamiliar = start.no_guarantee_code === "unfamiliar";
    element.toggleAttribute("data-unfamiliar", isUnfamiliar);
    const { policy, max_tokens } = start;
    if (!policy) return;
    vote?.need(policy.lambda_vote ?? 0);
    const drawn = { policy, budget: max_tokens, usual: usual?.(start) ?? null };
    if (samples.length > MOST_LANES) {
      all = crowd(samples, drawn, () => batch.touch("crowd"));
      grid.before(legendOf(drawn, isUnfamiliar));
      replace(grid, all.element);
      batch.touch("crowd");
      return;
    }
    const size = sizeFor(samples.length);
    grid.classList.add(size);
    lanes = samples.map((sample) => lane(sample, drawn, size, () => batch.touch(sample.index)));
    grid.before(legendOf(drawn, isUnfamiliar));
    replace(grid, lanes.map((one) => one.element));
  }

  function end() {
    element.setAttribute("aria-busy", "false");
    for (const one of lanes) one.reveal(); // also those out of sight: for printing, and for who scrolls fast
  }

  function showOthers() {
    const served = run.start?.guarantee?.alpha_certified;
    const others = served === undefined ? null : otherLevels(certified, served, run);
    if (others) after.append(others);
    return true;
  }

  return {
    element,
    run,
    take(name, data) {
      const sample = run.apply(name, data);
      if (name === "start") begin();
      else if (name === "vote") batch.touch("vote");
      else if (sample) {
        batch.touch(sample.index);
        if (all && name !== "token") batch.touch("crowd");
      }
    },
    finish(levels) {
      end();
      const panel = place.finish(run);
      replace(after, story(question, run));
      certified = levels;
      batch.touch("others");
      return panel;
    },
    cut() {
      end();
      place.cut();
      if (!run.start) setText(terms, "");
      for (const one of lanes) one.freeze();
      all?.freeze();
    },
    destroy() {
      batch.stop();
      for (const one of lanes) one.destroy();
      all?.destroy();
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
  if (!start.policy) return ["No token is generated."];
  const { guarantee, max_tokens } = start;
  const each = samples.length > 1 ? `${count(samples.length, "sample")}, each with ${tokens(max_tokens)}` : `Up to ${tokens(max_tokens)}`;
  const under = guarantee
    ? `under the rule certified for α = ${percent(guarantee.alpha_certified)}`
    : "without a guarantee";
  return [`${each} to think, ${under}. A token is a piece of text, about a short word.`];
}

/**
 * What the lines in the lanes mean: where there are several, not each has room to say so.
 *
 * @param {import("./curve.js").Terms} terms
 * @param {boolean} isUnfamiliar whether the question is unlike the tested ones
 */
function legendOf({ policy, budget, usual }, isUnfamiliar) {
  const line = (/** @type {string} */ role, /** @type {string} */ kind, /** @type {string} */ text) =>
    h("li", null, h("span", { class: `swatch ${kind}`, style: { borderColor: `var(--${role})` } }), text);
  const patience = policy.patience ? ` for ${tokens(policy.patience)}` : "";
  const low = policy.low_rise ? "the rising line" : threshold(policy.lambda_low);
  return h(
    "ul",
    { class: "chart-legend lanes-legend" },
    line("ink", "line", `confidence (0 to 1) while the sample thinks, up to ${tokens(budget)}${isUnfamiliar ? "; not tested on such questions" : ""}`),
    canStopHigh(policy) && line("blue", "dashed", `▲ ${threshold(policy.lambda_high)}: at or above it, the sample stops`),
    canStopLow(policy) && line("orange", "dotted", `▼ ${low}: at or below it${patience}, the sample stops`),
    Boolean(policy.lambda_answer) && line("green", "line", `least confidence of an answer at the sample’s own end: ${threshold(policy.lambda_answer ?? 0)}`),
    usual !== null && line("muted", "dotted", `usual end without early stopping: ${tokens(usual)}`),
    usual !== null && h("li", null, h("span", { class: "swatch unspent" }), "tokens not spent"),
  );
}

/** @param {Run} run @returns {string} how far it is, for those who stopped it */
export function progressOf(run) {
  const ended = run.samples.filter((one) => one.exit).length;
  const of = run.samples.length > 1 ? `, ${ended} of ${number(run.samples.length)} samples had ended` : "";
  return `${tokens(run.tokens)} had been generated${of}`;
}
