import assert from "node:assert/strict";
import { test } from "node:test";

import { byRisk } from "../../rlcm_serve/page/static/js/risks.js";
import { levelFor } from "../../rlcm_serve/page/static/js/trust/report-data.js";
import { guaranteeOf, riskWording } from "../../rlcm_serve/page/static/js/trust/wording.js";

test("risks have an order, those of one's own come last", () => {
  assert.deepEqual(["own", "regret", "selective", "error"].sort(byRisk), ["selective", "error", "regret", "own"]);
});

test("a risk of one's own is named as it is", () => {
  assert.equal(riskWording("toString").title, "toString");
  assert.equal(guaranteeOf({ risk: "cost" }, { alpha: 0.1, certified: true }), "At most 10% is the mean loss “cost”");
});

test("a link to a level shows that level, and one without shows one that is certified", () => {
  const levels = [0.05, 0.1, 0.2].map((alpha) => ({ alpha, certified: alpha !== 0.1 }));
  assert.equal(levelFor(levels, 0.1)?.alpha, 0.1);
  assert.equal(levelFor(levels, 0.15)?.alpha, 0.05);
  assert.equal(levelFor(levels, null)?.alpha, 0.05);
  assert.equal(levelFor(levels, 0.01)?.alpha, 0.05);
  assert.equal(levelFor([], 0.1), null);
});
