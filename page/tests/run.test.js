import assert from "node:assert/strict";
import { test } from "node:test";

import { totalOf } from "../../rlcm_serve/page/static/js/watch/vote.js";
import { Run } from "../../rlcm_serve/page/static/js/watch/run.js";

const policy = { lambda_low: 0.4, lambda_high: 0.9 };
const start = { samples: 2, max_tokens: 960, policy, guarantee: null, no_guarantee_reason: null };

function begun(more = {}) {
  const run = new Run();
  assert.equal(run.apply("start", { ...start, ...more }), null);
  return run;
}

test("a start makes a sample for each, and none where nothing is drawn", () => {
  assert.deepEqual(begun().samples.map(({ index, at, exit }) => [index, at, exit]), [[0, [], null], [1, [], null]]);
  assert.deepEqual(begun({ policy: null }).samples, []);
});

test("events are gathered by sample, thinking apart from answers", () => {
  const run = begun();
  const told = run.apply("token", { sample: 1, text: "It ", tokens: 2, is_answer: false });
  run.apply("token", { sample: 1, text: "is", tokens: 1, is_answer: false });
  run.apply("token", { sample: 1, text: "7", tokens: 1, is_answer: true });
  assert.equal(told, run.samples[1]);
  const { text, answerText, tokens } = run.samples[1];
  assert.deepEqual([text, answerText, tokens, run.tokens], ["It is", "7", 3, 3]);
  assert.equal(run.samples[0].text, "");
});

test("readings keep their tokens, and whether the last was at the end", () => {
  const run = begun();
  run.apply("checkpoint", { sample: 0, tokens: 32, confidence: 0.3, is_final: false });
  run.apply("checkpoint", { sample: 0, tokens: 40, confidence: 0.5, is_final: true });
  const { at, readings, finalRead } = run.samples[0];
  assert.deepEqual([at, readings, finalRead], [[32, 40], [0.3, 0.5], true]);
});

test("a reading that is null on the wire is no number, and above all not 0", () => {
  const run = begun();
  run.apply("checkpoint", { sample: 0, tokens: 32, confidence: null, is_final: false });
  assert.deepEqual(run.samples[0].readings, [NaN]);
});

test("an exit is as it was told first; a sample that ends without one says why itself", () => {
  const run = begun();
  const end = { sample: 0, exit: "high", reasoning_tokens: 65, confidence: 0.95, answer: "7", answer_tokens: 3 };
  run.apply("exit", { sample: 0, exit: "high", tokens: 64, confidence: 0.95 });
  run.apply("sample", end);
  run.apply("sample", { ...end, sample: 1, exit: "cancelled", confidence: null, answer: null });
  assert.deepEqual(run.samples[0].exit, { exit: "high", tokens: 64, confidence: 0.95 });
  assert.equal(run.samples[0].end.answer, "7");
  assert.deepEqual(run.samples[1].exit, { exit: "cancelled", tokens: 65, confidence: null });
});

test("the vote and the solution are of no sample, and what is unknown is passed over", () => {
  const run = begun();
  assert.equal(run.apply("vote", { counted: 1 }), null);
  assert.equal(run.apply("done", { answer: "7" }), null);
  assert.equal(run.apply("token", { sample: 9, text: "x", tokens: 1 }), null);
  assert.equal(run.apply("other", { sample: 0 }), run.samples[0]);
  assert.deepEqual([run.vote.counted, run.solution.answer, run.tokens], [1, "7", 0]);
});

test("shares of a vote are of all samples, with and without an answer", () => {
  assert.equal(totalOf({ 8: 0.9 }, "8", 0.5), 1.8);
  assert.equal(totalOf({ 8: 0.9, 7: 0.3 }, null, 0), 1.2);
  assert.equal(totalOf({}, null, 0), 0);
});
