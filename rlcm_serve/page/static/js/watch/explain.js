/** What α did to a question, in plain words. */

import { beside, count, frequency, list, measured, number, percent, threshold, tokens } from "../format.js";
import { RISKS } from "../risks.js";
import { canStopHigh, canStopLow, endedUnread, mayAnswer, readingDecimals, smoothedOf } from "./rule.js";
import { isUnlike } from "./trust-state.js";

/**
 * @typedef {import("./run.js").Start} Start
 * @typedef {import("./run.js").Solution} Solution
 * @typedef {import("./run.js").SampleEnd} SampleEnd
 * @typedef {import("./run.js").Policy} Policy
 * @typedef {import("../ask/question.js").Question} Question
 */

/**
 * The story of an answered question: the accepted risk, the rule that applied, and the result.
 *
 * @param {Question} question
 * @param {Start} start
 * @param {Solution} solution
 * @param {Pick<import("./run.js").Sample, "readings" | "finalRead">[]} [read] what was read of each sample
 * @returns {string[]} sentences
 */
export function explain(question, start, solution, read = []) {
  const told = [RISKS[question.risk].accepted(frequency(question.alpha))];
  const { guarantee, policy } = start;
  if (guarantee && guarantee.alpha_certified < guarantee.alpha_requested - 1e-9) {
    told.push(`The largest certified level below it is ${percent(guarantee.alpha_certified)}, so that level applied.`);
  }
  const unlike = isUnlike(solution);
  if (policy && !guarantee && !unlike) told.push(without(policy));
  if (!policy) return [...told, "No stopping rule is certified for that risk, so the service abstained without thinking."];
  if (start.samples === 1 && solution.samples[0]) {
    told.push(...ofOne(policy, start.max_tokens, solution.samples[0], solution, read[0]));
  } else told.push(...ofMany(policy, start.max_tokens, solution));
  if (unlike) told.push("That confidence was not tested on questions like this one.");
  return told;
}

/** @param {Policy} policy one that is applied without a guarantee */
function without(policy) {
  return canStopHigh(policy) || canStopLow(policy)
    ? "A stopping rule applied, but without a guarantee."
    : "No stopping rule applies to these settings, so the model used its full budget, without a guarantee.";
}

/**
 * @param {Policy} policy
 * @param {number} budget
 * @param {SampleEnd} sample
 * @param {Solution} solution
 * @param {Pick<import("./run.js").Sample, "readings" | "finalRead">} [read]
 */
function ofOne(policy, budget, sample, { abstained }, read) {
  const after = `after ${number(sample.reasoning_tokens)} of ${tokens(budget)}`;
  switch (sample.exit) {
    case "high":
      return [`So the model stopped as soon as its confidence reached ${threshold(policy.lambda_high)}, ${after}${abstained ? ", but its answer could not be read" : ""}.`];
    case "low": {
      const patience = policy.patience ? ` for ${tokens(policy.patience)}` : "";
      const rule = `So the model stops once its confidence has stayed at or below ${lowText(policy)}${patience}.`;
      const unread = policy.answer_on_low ? ", but its answer could not be read" : ", so the service abstains instead of guessing";
      return [rule, `That happened ${after}${abstained ? unread : ", and it answered with what it had"}.`];
    }
    default: {
      const end = sample.exit === "budget" ? `It used up all ${tokens(budget)}` : `It finished ${after}`;
      return [neverPassed(policy), `${end}${lastWord(policy, lastOf(policy, sample, read), abstained)}.`];
    }
  }
}

/** @param {Policy} policy */
function neverPassed(policy) {
  if (canStopHigh(policy)) {
    return `So the model may stop once its confidence reaches ${threshold(policy.lambda_high)}. It never did before its thinking ended.`;
  }
  return canStopLow(policy)
    ? "At that risk no confidence is high enough to stop early."
    : "At that risk the model may not stop early.";
}

/**
 * What the rule compares with the answer threshold.
 *
 * @param {Policy} policy
 * @param {SampleEnd} sample
 * @param {Pick<import("./run.js").Sample, "readings" | "finalRead">} [read]
 */
function lastOf(policy, { confidence: last }, read) {
  return policy.smoothing && read?.finalRead ? (smoothedOf(policy, read.readings).at(-1) ?? last) : last;
}

/**
 * @param {Policy} policy
 * @param {number | null} last reading; null or NaN if it could not be read
 * @param {boolean} abstained
 */
function lastWord(policy, last, abstained) {
  const least = policy.lambda_answer ?? 0;
  const unread = last === null || Number.isNaN(last);
  if (!abstained && (!least || unread)) return ", and answered";
  if (unread) return ", but its confidence could not be read, so the service abstains instead of guessing";
  const [shown, needed] = beside(last, least, readingDecimals(policy));
  const read = `${policy.smoothing ? "smoothed " : ""}confidence of ${shown}`;
  if (!abstained) return `, with a ${read}, and an answer needs ${needed}`;
  return last < least
    ? `, with a ${read}. An answer needs ${needed}, so the service abstains instead of guessing`
    : ", but its answer could not be read";
}

/**
 * @param {Policy} policy
 * @param {number} budget
 * @param {Solution} solution
 */
function ofMany(policy, budget, { samples, answer, abstained, confidence: share }) {
  const of = (/** @type {string} */ exit) => samples.filter((one) => one.exit === exit);
  const [high, low, natural, spent, cancelled] = ["high", "low", "natural", "budget", "cancelled"].map(of);
  const parts = [];
  if (high?.length) {
    parts.push(`${those(high, samples)} stopped as soon as ${its(high)} confidence reached ${threshold(policy.lambda_high)}, ${range(high, budget)}`);
  }
  if (low?.length) parts.push(`${those(low, samples)} stopped at a confidence of ${lowText(policy)} or less, ${range(low, budget)}`);
  if (natural?.length) parts.push(`${those(natural, samples)} finished ${range(natural, budget)}`);
  if (spent?.length) parts.push(`${those(spent, samples)} used up all ${tokens(budget)}`);
  const told = [];
  if (policy.lambda_vote) told.push(`So an answer needs ${percent(policy.lambda_vote)} of the vote.`);
  if (parts.length) told.push(policy.lambda_vote ? capital(`${list(parts)}.`) : `So ${list(parts)}.`);
  if (cancelled?.length) {
    const why = policy.lambda_stop && !abstained ? "still thought when one answer was far enough ahead" : "could no longer change the result";
    told.push(`${capital(those(cancelled, samples))} ${why}, and ${was(cancelled)} cancelled.`);
  }
  const sure = policy.lambda_answer ? ` (that needs ${threshold(policy.lambda_answer)} at a natural end)` : "";
  if (!abstained && answer !== null) {
    told.push(share === null ? "" : `“${answer}” won ${measured(share)} of the vote.`);
  } else if (samples.some((one) => one.answer !== null)) {
    told.push("No answer won enough of the vote, so the service abstains instead of guessing.");
  } else if (samples.some((one) => mayAnswer(policy, one))) {
    told.push("No answer could be read in what the samples wrote.");
  } else if (endedUnread(samples)) {
    told.push("The confidence of no sample could be read at its end, so the service abstains instead of guessing.");
  } else told.push(`No sample was confident enough to answer${sure}, so the service abstains instead of guessing.`);
  return told.filter(Boolean);
}

/**
 * "all 4 samples", "3 of 4 samples", "1 of 4 samples".
 *
 * @param {SampleEnd[]} some
 * @param {SampleEnd[]} all
 */
function those(some, all) {
  return some.length === all.length ? `all ${count(all.length, "sample")}` : `${some.length} of ${count(all.length, "sample")}`;
}

/** @param {SampleEnd[]} some */
function its(some) {
  return some.length === 1 ? "its" : "their";
}

/** @param {SampleEnd[]} some */
function was(some) {
  return some.length === 1 ? "was" : "were";
}

/**
 * @param {SampleEnd[]} some
 * @param {number} budget
 */
function range(some, budget) {
  const spent = some.map((one) => one.reasoning_tokens);
  const [least, most] = [Math.min(...spent), Math.max(...spent)];
  return `after ${least === most ? number(least) : `${number(least)} to ${number(most)}`} of ${tokens(budget)}`;
}

/** @param {Policy} policy */
function lowText(policy) {
  return policy.low_rise ? "a threshold that rises with its tokens" : threshold(policy.lambda_low);
}

/** @param {string} text */
function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
