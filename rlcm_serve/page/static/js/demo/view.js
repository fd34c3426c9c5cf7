/** The demo: drag α, and see on recorded questions where the model stops, and what comes of it. */

import { h, replace, setText } from "../dom.js";
import { beside, confidence, frequency, isOne, measured, number, percent, tokens } from "../format.js";
import { slider } from "../ask/slider.js";
import { answersAtEnd, canStopHigh, smoothedOf } from "../watch/rule.js";
import { chart } from "./chart.js";
import { dots, legend, sign } from "./dots.js";
import { outcomeAt, replayed, tellingQuestion, totals } from "./replay.js";

/**
 * @typedef {import("./replay.js").Demo} Demo
 * @typedef {import("./replay.js").Replayed} Replayed
 * @typedef {import("../watch/run.js").Policy} Policy
 */

/** From one reading to the next while a question replays. */
const STEP_MS = 130;
const FIRST_ALPHA = 0.05;

/**
 * @param {Demo} demo
 * @param {(alpha: number) => void} onAsk the visitor wants to ask
 * @param {string} kind of questions, in the plural
 * @returns {{ element: HTMLElement, alpha: () => number, play: () => void, stop: () => void }}
 */
export function demoView(demo, onAsk, kind) {
  const { levels, questions } = demo;
  const ends = levels.map(({ policy }) => questions.map((one) => replayed(policy, one)));
  const sums = ends.map((one) => totals(one, questions));
  let chosen = tellingQuestion(ends);
  let level = Math.max(0, levels.findIndex((one) => one.alpha >= FIRST_ALPHA - 1e-9));
  /** Readings of the replay so far; null once it is over. @type {number | null} */
  let played = null;
  let timer = 0;
  /** The level whose count is written; -1: none is yet. */
  let said = -1;

  const alpha = slider("How often may an answer be wrong?\u00a0α", (value) => `at most ${percent(value)}`, () => {
    level = levels.findIndex((one) => one.alpha === alpha.value());
    halt();
    draw();
  });
  const curve = chart();
  const field = dots(questions.length, (at) => {
    chosen = at;
    halt();
    draw();
  });
  const key = legend();
  const asked = h("p", { class: "demo-question" });
  const told = h("p", { class: "demo-told" });
  const counted = h("p", { class: "demo-count", role: "status" });
  const proof = h("p", { class: "demo-proof hint" });
  const again = h("button", { type: "button", class: "quiet", onclick: play }, "▶ Replay");
  const element = h(
    "section",
    { class: "demo", "aria-labelledby": "demo-title" },
    h("h1", { id: "demo-title" }, "Say how often an answer may be wrong. Watch the model decide when to stop."),
    h("p", { class: "demo-intro" }, "While it thinks, its confidence is read: sure enough, it answers; too unsure, it abstains (no answer). A smaller α allows fewer wrong answers."),
    alpha.element,
    h(
      "div",
      { class: "demo-parts" },
      h(
        "div",
        { class: "demo-one" },
        h("h2", null, "One question"),
        asked,
        curve.element,
        h("p", { class: "demo-key hint" }, "If it answered there: ", sign("right"), " right ", sign("wrong"), " wrong"),
        told,
      ),
      h("div", { class: "demo-all" }, h("h2", null, `${questions.length} questions`), counted, field.element, key.element, proof),
    ),
    h(
      "div",
      { class: "row" },
      h("button", { type: "button", class: "primary", onclick: () => onAsk(alpha.value()) }, "Ask your own question"),
      again,
    ),
  );
  const stops = levels.map((one) => ({ value: one.alpha, text: percent(one.alpha), named: true }));

  function draw() {
    const recorded = questions[chosen];
    const end = ends[level]?.[chosen];
    const policy = levels[level]?.policy;
    const sum = sums[level];
    const at = levels[level]?.alpha ?? 0;
    if (!recorded || !end || !policy || !sum) return;
    curve.draw(recorded, policy, end, played ?? undefined);
    const outcomes = (ends[level] ?? []).map((one) => one.outcome);
    field.draw(outcomes, chosen);
    key.draw(outcomes);
    setText(asked, recorded.question ?? `Question ${chosen + 1}`);
    if (played === null) replace(told, sign(end.outcome), " ", ending(recorded, policy, end));
    else setText(told, "Thinking …");
    if (level !== said) {
      said = level; // whoever listens would hear each rewriting
      replace(
        counted,
        `At ${percent(at)}: `,
        h("b", { class: "is-wrong" }, `${sum.wrong} wrong`),
        ` of ${sum.answered} answered, with `,
        h("b", null, `${measured(sum.tokensShare)} of the tokens`),
        " of thinking to the end.",
      );
      setText(proof, proofOf(demo, level));
    }
    const often = frequency(at);
    alpha.set(stops, at, `The promise: at most ${often} answers ${isOne(often) ? "is" : "are"} wrong, on average over ${kind} like these. Not promised: any single answer, or other questions.`);
  }

  function halt() {
    clearInterval(timer);
    played = null;
  }

  function play() {
    halt();
    if (!matchMedia("(prefers-reduced-motion: reduce)").matches) {
      played = 0;
      timer = setInterval(() => {
        played = (played ?? 0) + 1;
        if (played > (ends[level]?.[chosen]?.stop ?? 0)) halt();
        draw();
      }, STEP_MS);
    }
    draw();
  }

  draw();
  return { element, alpha: alpha.value, play, stop: halt };
}

/**
 * What the whole series says of a level, and what is odd about it beside the next ones.
 *
 * @param {Demo} demo
 * @param {number} at place of the level
 */
function proofOf({ levels, questions, on_test, n_problems }, at) {
  const level = levels[at];
  if (!level) return "";
  const { alpha, policy, measured: found } = level;
  const said = [];
  if (found) {
    const target = percent(alpha);
    const side = found.high <= alpha ? `below ${target}` : found.low > alpha ? `above ${target}` : `which includes ${target}`;
    said.push(`All ${number(n_problems)} ${on_test ? "test questions" : "questions that the rule was made on"}, like these ${questions.length}: ${measured(found.risk)} of answers wrong (95% interval: ${measured(found.low)} to ${measured(found.high)}), ${side}.`);
  }
  const [before, after] = [levels[at - 1], levels[at + 1]];
  if (before && JSON.stringify(before.policy) === JSON.stringify(policy)) said.push(`The rule is the same as at ${percent(before.alpha)}.`);
  else if (after && after.policy.lambda_high > policy.lambda_high) said.push(`It may stop sooner than at ${percent(after.alpha)}, but abstains more often.`);
  return said.join(" ");
}

const SAID = { right: "The answer is right.", wrong: "The answer is wrong.", abstained: "The answer cannot be read: it abstains." };
const WOULD = { right: "Its answer would have been right.", wrong: "Its answer would have been wrong.", abstained: "Its answer cannot be read." };

/**
 * @param {import("./replay.js").Recorded} recorded
 * @param {Policy} policy
 * @param {Replayed} end
 */
function ending(recorded, policy, { stop, exit, outcome }) {
  const { tokens: at, confidence: readings } = recorded;
  const read = smoothedOf(policy, readings);
  const whole = at.at(-1) ?? 0;
  const here = number(at[stop] ?? 0);
  const was = confidence(read[stop] ?? 0);
  if (exit === "high") return `Sure enough (${was}): it stops after ${here} of ${tokens(whole)}. ${SAID[outcome]}`;
  if (exit === "low") {
    const then = policy.answer_on_low ? SAID[outcome] : "It abstains.";
    return `Unsure for ${tokens(policy.patience ?? 0)}: it stops after ${here} of ${tokens(whole)}. ${then}`;
  }
  const [most, reached] = beside(Math.max(...read.slice(0, -1), 0), policy.lambda_high);
  const never = `${canStopHigh(policy) ? `It reaches ${most}, not the ${reached} to stop: it` : "It"} thinks all ${tokens(whole)}.`;
  if (answersAtEnd(policy, readings)) return `${never} ${SAID[outcome]}`;
  const [last, needed] = beside(read[stop] ?? 0, policy.lambda_answer ?? 0);
  return `${never} Its last confidence, ${last}, is below ${needed}: it abstains. ${WOULD[outcomeAt(recorded, stop)]}`;
}
