import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { answersAtEnd, findExit, lowThreshold, mayAnswer, readingDecimals } from "../../rlcm_serve/page/static/js/watch/rule.js";

const policy = { lambda_low: 0.4, lambda_high: 0.9, patience: 64 };

test("a high exit is at the first reading that reaches λ2", () => {
  assert.deepEqual(findExit(policy, [32, 64, 96], [0.5, 0.9, 0.95]), { exit: "high", tokens: 64, confidence: 0.9 });
});

test("a low exit waits until its patience has passed without a break", () => {
  assert.equal(findExit(policy, [32, 64, 96], [0.1, 0.4, 0.95])?.tokens, 64);
  assert.equal(findExit(policy, [32, 64, 96, 128], [0.5, 0.1, 0.1, 0.1])?.tokens, 96);
  assert.equal(findExit(policy, [32, 64, 96, 128], [0.1, 0.5, 0.1, 0.5]), null);
});

test("high is looked at before low", () => {
  assert.equal(findExit({ ...policy, patience: 0, smoothing: 0 }, [32], [0.9])?.exit, "high");
});

test("thresholds out of reach never fire", () => {
  assert.equal(findExit({ lambda_low: -1, lambda_high: 1.01 }, [32, 64], [0, 1]), null);
});

test("readings have the decimals of the thresholds that can be reached", () => {
  assert.equal(readingDecimals({ lambda_low: 0.4, lambda_high: 0.9839, lambda_answer: 0.92 }), 4);
  assert.equal(readingDecimals({ lambda_low: 0.4, lambda_high: 0.75, lambda_answer: 0.705 }), 3);
  assert.equal(readingDecimals({ lambda_low: -0.0001, lambda_high: 1.0001 }), 2);
});

test("smoothing is causal and starts from the first reading", () => {
  const smooth = { lambda_low: -1, lambda_high: 0.7, smoothing: 0.5 };
  assert.equal(findExit(smooth, [32, 64], [0.4, 0.99]), null); // 0.695
  assert.equal(findExit(smooth, [32, 64], [0.42, 0.99])?.tokens, 64); // 0.705
});

test("it stops and answers where the engine's rule does", () => {
  // Written by tests/calibration/policy/test_page_vectors.py, which checks in CI that they are current.
  const vectors = JSON.parse(readFileSync(new URL("rule-vectors.json", import.meta.url), "utf8"));
  assert.ok(vectors.length > 50);
  assert.ok(vectors.some(({ readings }) => readings.includes(null)));
  for (const { policy: rule, step, readings: written, exit, tokens, answers } of vectors) {
    const readings = written.map((one) => one ?? NaN);
    const at = readings.map((_, i) => step * (i + 1));
    const found = findExit(rule, at.slice(0, -1), readings.slice(0, -1));
    assert.deepEqual([found?.exit ?? null, found?.tokens], [exit, tokens]);
    if (!exit) assert.equal(answersAtEnd(rule, readings), answers);
  }
});

test("a reading that is no number stops nothing, breaks a low run, and leads to no answer", () => {
  assert.equal(findExit({ ...policy, patience: 0 }, [32], [NaN]), null);
  assert.equal(findExit(policy, [32, 64, 96, 128], [0.1, NaN, 0.1, 0.1])?.tokens, 128);
  assert.equal(findExit(policy, [32, 64], [NaN, 0.9])?.exit, "high", "without smoothing it is forgotten");
  assert.equal(findExit({ ...policy, smoothing: 0.5 }, [32, 64], [NaN, 0.9]), null, "with smoothing it is not");
  for (const least of [0, 0.5]) {
    assert.equal(answersAtEnd({ ...policy, lambda_answer: least }, [0.9, NaN]), false);
    assert.equal(mayAnswer({ ...policy, lambda_answer: least }, { exit: "natural", confidence: null }), false);
    assert.equal(mayAnswer({ ...policy, lambda_answer: least }, { exit: "natural", confidence: 0.9 }), true);
  }
});

test("λ1 may rise with the tokens", () => {
  const rising = { lambda_low: 0.1, lambda_high: 0.9, low_rise: 0.4, low_slope: 0.05, low_shift: 100 };
  assert.ok(Math.abs(lowThreshold(rising, 100) - 0.3) < 1e-12);
  assert.ok(lowThreshold(rising, 300) < 0.5);
});
