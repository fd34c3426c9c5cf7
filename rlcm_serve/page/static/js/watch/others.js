/** What other levels of risk would have made of the same thinking. */

import { h } from "../dom.js";
import { EXITS } from "../exits.js";
import { count, list, number, percent, threshold } from "../format.js";
import { answersAtEnd, canStopHigh, findExit } from "./rule.js";

/**
 * @typedef {import("./run.js").Policy} Policy
 * @typedef {import("./run.js").Run} Run
 * @typedef {import("./run.js").Sample} Sample
 * @typedef {import("../ask/levels.js").Level} Level
 * @typedef {{ exit: "high" | "low", tokens: number } | null} Found
 */

const COLUMNS = ["Stops when confidence reaches", "An answer needs", "Result for this thinking"];

/**
 * A table of the certificate's levels, each with what its rule makes of the readings that were taken.
 * After an exit there are none, so of a rule that would have gone on no more than that is known.
 *
 * @param {Level[]} levels certified
 * @param {number} served alpha of the level that applies
 * @param {Run} run one that is done
 * @returns {HTMLElement | null} null if there is nothing to compare
 */
export function otherLevels(levels, served, run) {
  const rows = levels.filter((one) => one.policy);
  if (rows.length < 2 || !run.samples.some((one) => one.at.length)) return null;
  return h(
    "section",
    { class: "others" },
    h("h2", { id: "others-title" }, "The same thinking at another risk"),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-labelledby": "others-title" },
      h(
        "table",
        null,
        h("thead", null, h("tr", null, ["α", ...COLUMNS].map((title) => h("th", { scope: "col" }, title)))),
        h("tbody", null, rows.map((one) => rowOf(one, Math.abs(one.alpha - served) < 1e-9, run))),
      ),
    ),
  );
}

/**
 * @param {Level} level
 * @param {boolean} mine
 * @param {Run} run
 */
function rowOf(level, mine, run) {
  const policy = /** @type {Policy} */ (/** @type {unknown} */ (level.policy));
  const cells = [canStopHigh(policy) ? threshold(policy.lambda_high) : "never", needs(policy, run.samples.length), madeOf(policy, run, mine)];
  return h(
    "tr",
    { class: mine ? "mine" : null },
    h("th", { scope: "row" }, percent(level.alpha), mine && h("small", null, " yours")),
    cells.map((text, at) => h("td", { "data-title": COLUMNS[at] }, text)),
  );
}

/**
 * What a rule makes of the readings that were taken, as far as they tell, in words.
 *
 * @param {Policy} policy
 * @param {Run} run one that is done
 * @param {boolean} mine whether this is the rule that applied
 */
export function madeOf(policy, run, mine) {
  const found = run.samples.map((one) => replay(policy, one));
  return `${stops(found, run.samples, mine)}${mine ? given(run) : outcome(policy, found, run)}`;
}

/**
 * @param {Policy} policy
 * @param {number} samples
 */
function needs({ lambda_answer = 0, lambda_vote = 0 }, samples) {
  const parts = [];
  if (lambda_answer > 0) parts.push(`${threshold(lambda_answer)} at a natural end`);
  if (lambda_vote > 0 && samples > 1) parts.push(`${percent(lambda_vote)} of the vote`);
  return list(parts) || "no minimum";
}

/**
 * Where a rule would have stopped a sample. A last reading at its own end never stops it.
 *
 * @param {Policy} policy
 * @param {Sample} sample
 * @returns {Found}
 */
function replay(policy, { at, readings, finalRead }) {
  const end = finalRead ? at.length - 1 : at.length;
  return findExit(policy, at.slice(0, end), readings.slice(0, end));
}

/**
 * @param {Found[]} found
 * @param {Sample[]} samples
 * @param {boolean} mine whether this is the rule that applied
 */
function stops(found, samples, mine) {
  const alone = samples.length === 1;
  const parts = /** @type {const} */ (["high", "low"]).flatMap((reason) => {
    const those = found.filter((one) => one?.exit === reason).map((one) => one?.tokens ?? 0);
    if (!those.length) return [];
    const [least, most] = [Math.min(...those), Math.max(...those)];
    const span = least === most ? count(least, "token") : `${number(least)} to ${count(most, "token")}`;
    return [`${EXITS[reason].mark} ${alone ? "" : `${those.length} `}${EXITS[reason].word} after ${span}`];
  });
  const ended = samples.filter((one, i) => !found[i] && one.finalRead);
  for (const reason of /** @type {const} */ (["natural", "budget"])) {
    const many = ended.filter(({ exit }) => (exit?.exit === "budget") === (reason === "budget")).length;
    if (many) parts.push(`${EXITS[reason].mark} ${alone ? "" : `${many} `}${EXITS[reason].word}`);
  }
  // Samples that were ended are known to have gone no further only under the rule that applied.
  const spared = mine ? samples.filter((one, i) => !found[i] && one.exit?.exit === "cancelled").length : 0;
  if (spared) parts.push(`${EXITS.cancelled.mark} ${spared} ${EXITS.cancelled.word}`);
  const on = found.filter((one) => !one).length - ended.length - spared;
  if (on) parts.push(alone ? "would have continued" : `${on} would have continued`);
  return parts.join(", ");
}

/** What was given. @param {Run} run */
function given({ solution, samples }) {
  if (!solution || solution.abstained) return ", and abstains";
  return samples.length > 1 ? `, and answers ${solution.answer}` : ", and answers";
}

/**
 * Whether there is an answer, where that can be known.
 *
 * @param {Policy} policy
 * @param {Found[]} found
 * @param {Run} run
 */
function outcome(policy, found, { samples, vote, solution }) {
  const [only, sample] = [found[0], samples[0]];
  if (samples.length === 1 && sample) {
    if (only?.exit === "low") return policy.answer_on_low ? ", and answers" : ", and abstains";
    if (only) return ", and answers";
    if (!sample.finalRead || sample.end?.answer_tokens === 0) return "";
    return answersAtEnd(policy, sample.readings) ? ", and answers" : ", and abstains";
  }
  const same = samples.every((one, i) => sameEnd(one, found[i] ?? null));
  if (!same || !vote || (policy.lambda_answer ?? 0) > 0) return "";
  const share = solution?.confidence ?? vote.share;
  return share >= (policy.lambda_vote ?? 0) && vote.leader !== null ? `, and answers ${vote.leader}` : ", and abstains";
}

/**
 * @param {Sample} sample
 * @param {Found} found
 */
function sameEnd({ exit, finalRead }, found) {
  if (found) return found.exit === exit?.exit && found.tokens === exit.tokens;
  return finalRead;
}
