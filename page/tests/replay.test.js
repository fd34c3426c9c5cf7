import assert from "node:assert/strict";
import { test } from "node:test";

import { replayed } from "../../rlcm_serve/page/static/js/demo/replay.js";

const recorded = { question: null, tokens: [32, 64, 80], confidence: [0.4, 0.5, 0.72], answer_tokens: [4, 4, 4], right: "001" };
const policy = { lambda_low: -1, lambda_high: 0.9, lambda_answer: 0.7 };

test("a recorded question ends as the rule would end it", () => {
  assert.deepEqual(replayed(policy, recorded), { stop: 2, exit: "end", outcome: "right", tokens: 84 });
  assert.deepEqual(replayed({ ...policy, lambda_high: 0.5 }, recorded), { stop: 1, exit: "high", outcome: "wrong", tokens: 68 });
});

test("an answer that cannot be read is none", () => {
  const unread = { ...recorded, right: "0--" };
  assert.deepEqual(replayed(policy, unread), { stop: 2, exit: "end", outcome: "abstained", tokens: 84 });
  assert.equal(replayed({ ...policy, lambda_high: 0.5 }, unread).outcome, "abstained");
  assert.equal(replayed({ ...policy, lambda_high: 0.4 }, unread).outcome, "wrong");
});

test("at its end the smoothed confidence decides whether it answers", () => {
  assert.equal(replayed({ ...policy, smoothing: 0.5 }, recorded).outcome, "abstained"); // 0.585
});
