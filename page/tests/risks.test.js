import assert from "node:assert/strict";
import { test } from "node:test";

import { RISKS, byRisk } from "../../rlcm_serve/page/static/js/risks.js";
import { levelFor } from "../../rlcm_serve/page/static/js/trust/report-data.js";
import { guaranteeOf, riskWording, samePolicyOf } from "../../rlcm_serve/page/static/js/trust/wording.js";

test("risks have an order, those of one's own come last", () => {
  assert.deepEqual(["own", "regret", "selective", "error"].sort(byRisk), ["selective", "error", "regret", "own"]);
});

test("a risk of one's own is named as it is", () => {
  assert.equal(riskWording("toString").title, "toString");
  assert.equal(guaranteeOf({ risk: "cost" }, { alpha: 0.1, certified: true }), "The promise: at most 10% mean loss “cost”");
});

test("a link to a level shows that level, and one without shows one that is certified", () => {
  const levels = [0.05, 0.1, 0.2].map((alpha) => ({ alpha, certified: alpha !== 0.1 }));
  assert.equal(levelFor(levels, 0.1)?.alpha, 0.1);
  assert.equal(levelFor(levels, 0.15)?.alpha, 0.05);
  assert.equal(levelFor(levels, null)?.alpha, 0.05);
  assert.equal(levelFor(levels, 0.01)?.alpha, 0.05);
  assert.equal(levelFor([], 0.1), null);
});

test("neighbouring levels with the same stopping rule are named, from each of them", () => {
  const level = (alpha, lambda_high, certified = true) => ({ alpha, certified, policy: certified ? { lambda_high } : null });
  const levels = [level(0.01, 0, false), level(0.05, 0.9), level(0.1, 0.9), level(0.2, 0.8), level(0.3, 0.9)];
  const same = " α = 5% and 10% have the same stopping rule, so questions are answered in the same way at each of them.";
  assert.deepEqual(levels.map((one) => samePolicyOf(levels, one)), ["", same, same, "", ""]);
  const three = [level(0.05, 0.9), level(0.1, 0.9), level(0.2, 0.9)];
  assert.match(samePolicyOf(three, three[1]), /α = 5%, 10% and 20% have the same stopping rule, .* at each of them/);
});

test("a frequency agrees with its verb", () => {
  assert.equal(RISKS.error.often("1 of 10"), "1 of 10 questions gets a wrong answer");
  assert.equal(RISKS.error.often("3 of 10"), "3 of 10 questions get a wrong answer");
  assert.equal(RISKS.selective.often("3 of 10"), "3 of 10 answers it gives are wrong");
});
