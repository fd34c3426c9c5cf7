import assert from "node:assert/strict";
import { test } from "node:test";

import { pendingVerdict, possibleVerdicts, verdictOf } from "../../rlcm_serve/page/static/js/watch/trust-state.js";

// As `rlcm_serve/solving/statement.py` writes it.
const statement =
  "Counting every group equally, of the questions of kind 'algebra' that this policy answers, at most 10% get a wrong answer on average. " +
  "This covers first asks of questions drawn as the calibration's were, with 90% confidence over the draw of 320 calibration groups, whichever alpha is chosen. " +
  "At the same time, the service abstains on at most 40% of all questions.";
const question = { problem: "x", alpha: 0.1, n: 1, risk: "selective", vote: "confidence", kind: "algebra" };
const guarantee = { statement, alpha_certified: 0.1, kind: "algebra" };
const solution = { answer: "14", abstained: false, confidence: 0.9, guarantee, samples: [], no_guarantee_code: null };

test("what is promised is said as the service states it, with all its limits", () => {
  assert.equal(pendingVerdict(question, { guarantee }).claim, statement);
  const { state, claim } = verdictOf(question, { guarantee }, solution);
  assert.deepEqual([state, claim], ["guaranteed", `${statement} Any single answer can still be wrong.`]);
});

test("no other state states a promise", () => {
  const weak = verdictOf({ ...question, n: 4 }, { guarantee }, { ...solution, confidence: 0.4 });
  assert.match(weak.claim, /^The samples disagree/);
  const none = verdictOf(question, { guarantee: null }, { ...solution, guarantee: null, no_guarantee_code: "withdrawn" });
  assert.match(none.claim, /nothing is promised/);
});

test("before anything is known there is room for a statement of the usual length", () => {
  const usual = statement.indexOf(" At the same time") - "Counting every group equally, ".length;
  assert.ok(Math.max(...possibleVerdicts(question).map(({ claim }) => claim.length)) >= usual);
});

test("an abstention says why there is no answer, and what it counts as", () => {
  const policy = { lambda_low: -1, lambda_high: 0.9, lambda_answer: 0.5 };
  const said = (risk, sample, more = {}) => {
    const end = { ...solution, answer: null, abstained: true, exit: sample.exit, samples: [{ answer: null, ...sample }] };
    return verdictOf({ ...question, risk }, { guarantee, samples: 1, policy: { ...policy, ...more } }, end).claim;
  };
  const unread = /no answer could be read/;
  assert.match(said("error", { exit: "high", confidence: 0.97 }), unread);
  assert.match(said("error", { exit: "natural", confidence: 0.6 }), unread);
  assert.match(said("error", { exit: "low", confidence: 0.1 }, { answer_on_low: true }), unread);
  const blind = /its confidence could not be read, so the service abstains instead of guessing/;
  for (const exit of ["natural", "budget"]) {
    for (const lambda_answer of [0, 0.5]) assert.match(said("error", { exit, confidence: null }, { lambda_answer }), blind);
  }
  assert.match(said("selective", { exit: "natural", confidence: 0.4 }), /not sure enough at its end/);
  assert.match(said("selective", { exit: "low", confidence: 0.1 }), /confidence stayed low/);
  assert.match(said("selective", { exit: "high", confidence: 0.97 }), /does not count as wrong/);
  assert.match(said("error", { exit: "high", confidence: 0.97 }), /It counts as wrong/);
  assert.match(said("regret", { exit: "high", confidence: 0.97 }), /counts as lost if the full budget/);
});

test("an unfamiliar question that was thought about has the reason for which it was not answered", () => {
  const start = { guarantee: null, samples: 1, policy: { lambda_low: 0.4, lambda_high: 0.9, lambda_answer: 0.6 } };
  const end = { ...solution, answer: null, abstained: true, guarantee: null, no_guarantee_code: "unfamiliar", familiarity: 0.002 };
  const thought = verdictOf(question, start, { ...end, exit: "low", samples: [{ answer: null, exit: "low", confidence: 0.2 }] });
  assert.match(thought.claim, /^The confidence stayed low.* It is also unlike the tested questions\./);
  const declined = verdictOf(question, start, { ...end, exit: null, samples: [{ answer: null, exit: "cancelled", confidence: null }] });
  assert.match(declined.claim, /so the model did not answer it/);
});

test("settings are not blamed for what may be the engine's difference", () => {
  const none = verdictOf(question, { guarantee: null }, { ...solution, guarantee: null, no_guarantee_code: "not_covered" });
  assert.match(none.claim, /^These settings, or this engine, differ from the tested ones/);
});

test("a question whose familiarity was not read is not said to be unlike the tested ones", () => {
  const reason = "the engine did not read whether the question is like the calibration problems";
  const unread = { ...solution, guarantee: null, no_guarantee_code: "unfamiliar", no_guarantee_reason: reason, familiarity: null };
  const { state, claim } = verdictOf(question, { guarantee: null }, unread);
  assert.deepEqual([state, claim], ["none", `The engine${reason.slice(10)}.`]);
  const start = { guarantee: null, samples: 1, policy: { lambda_low: -1, lambda_high: 0.9 } };
  const declined = { ...unread, answer: null, abstained: true, exit: null, samples: [{ answer: null, exit: "cancelled", confidence: null }] };
  assert.match(verdictOf(question, start, declined).claim, /^The engine did not read/);
  assert.equal(verdictOf(question, { guarantee: null }, { ...unread, familiarity: 0.002 }).state, "unfamiliar");
});
