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
