import assert from "node:assert/strict";
import { test } from "node:test";

import { verdict } from "../../rlcm_serve/page/static/js/trust/fingerprint.js";
import { reportDataOf } from "../../rlcm_serve/page/static/js/trust/report-data.js";
import { guaranteeOf, jointlyOf, limitOf, rulesOf, stateOf, surenessOf } from "../../rlcm_serve/page/static/js/trust/wording.js";

const good = { active: true, fits: true, withdrawn: null, voided: null };

test("a certificate is active only if its promise is given", () => {
  assert.equal(stateOf(good).kind, "good");
  for (const [change, words] of [
    [{ voided: "dtype is float16" }, "no guarantee on this engine"],
    [{ withdrawn: "risk alarm" }, "promise withdrawn"],
    [{ fits: false, voided: null }, "for another engine"],
  ]) {
    const { kind, word } = stateOf({ ...good, ...change });
    assert.deepEqual([kind, word], ["bad", words]);
  }
  assert.equal(stateOf({ ...good, active: false }).word, "not active");
});

test("what an engine voids is not told as a promise", () => {
  const level = { alpha: 0.1, certified: true };
  const report = { ...good, risk: "error", kind: null };
  assert.match(guaranteeOf(report, level), /^The promise: at most 10%/);
  assert.match(guaranteeOf({ ...report, voided: "dtype is float16" }, level), /^The promise, which this engine does not give: at most/);
});

test("a promise says if it counts every group equally", () => {
  const report = { ...good, risk: "error", kind: null, average: "groups" };
  assert.match(guaranteeOf(report, { alpha: 0.1, certified: true }), /^The promise: counting every group of questions equally, at most 10%/);
});

test("a threshold that rises is not told as one that stands still", () => {
  const rule = (policy) => rulesOf({ n: 1 }, { lambda_high: null, lambda_low: 0.1, policy: { patience: 64, ...policy } })[0].text.replace(/\u00a0/g, " ");
  assert.equal(rule({}), "It stops and abstains once its confidence has stayed at or below 0.10 for 64 tokens (the threshold λ1).");
  assert.equal(
    rule({ low_rise: 0.4, low_slope: 0.05, low_shift: 100 }),
    "It stops and abstains once its confidence has stayed below a threshold that rises from 0.10 to 0.50, half of it by 100 tokens, for 64 tokens (the threshold λ1).",
  );
});

test("without report data nothing is said of the engine's fingerprint", () => {
  const certificate = { ...good, id: "c", procedure: { n: 1, vote: "confidence", max_tokens: 960 }, levels: [], n_problems: 9, fingerprint: { dtype: "float32" } };
  assert.equal(reportDataOf(certificate, "none").engine_fingerprint, null);
});

test("the verdict on the engine follows what the service says where fingerprints cannot be compared", () => {
  const unknown = { parts: 3, different: [], known: false };
  assert.match(verdict({ ...unknown, fits: null, voided: null }), /engine is starting/);
  assert.match(verdict({ ...unknown, fits: false, voided: null }), /^✕ It was fitted on another engine/);
  assert.match(verdict({ ...unknown, fits: true, voided: "dtype is float16" }), /^✕ .*no guarantee/);
  assert.match(verdict({ ...unknown, fits: true, voided: null }), /^✓ The certificate applies to this engine/);
  assert.match(verdict({ parts: 3, different: ["vllm"], known: true, fits: true, voided: null }), /rounding alone/);
  assert.match(verdict({ parts: 3, different: ["dtype"], known: true, fits: true, voided: "dtype is float16" }), /^✕ .*no guarantee/);
});

test("a count of next questions says from where they must come", () => {
  const level = { alpha: 0.1 };
  const report = (next, average = "problems") => ({ levels: [level], risk: "selective", kind: null, average, joint: { bounds: [], next: { questions: 100, most: [17], ...next } } });
  assert.match(jointlyOf(report({ different_groups: false }), level), /in one count of 100 answered questions, from a moment/);
  assert.match(jointlyOf(report({ different_groups: true }), level), /100 answered questions from different groups, from a moment/);
  assert.match(jointlyOf(report({ different_groups: true }, "groups"), level), /^ At the same time, counting every group of questions equally, in one/);
});

test("a test that holds only in the limit of many problems is told as such", () => {
  const covers = (limit) => `With probability at least 90%${limit} over the random choice of the calibration problems, every certified policy keeps its alpha`;
  const asymptotic = covers(" in the limit of many problems (the test is asymptotic)");
  assert.match(limitOf(asymptotic), /^ This holds only in the limit of many calibration problems/);
  assert.equal(limitOf(covers("")), "");
  const report = { kind: null, joint: null, delta: 0.1, promise: "simultaneous" };
  assert.match(surenessOf({ ...report, covers: asymptotic }), /break their promise\. This holds only in the limit/);
  assert.doesNotMatch(surenessOf({ ...report, covers: covers("") }), /limit/);
});
