import assert from "node:assert/strict";
import { test } from "node:test";

import { explain } from "../../rlcm_serve/page/static/js/watch/explain.js";

const plain = (sentences) => sentences.join(" ").replace(/\u00a0/g, " ");
const policy = { lambda_low: 0.4, lambda_high: 0.75, patience: 128, lambda_answer: 0.7 };
const guarantee = { statement: "", risk: "selective", alpha_requested: 0.1, alpha_certified: 0.1, delta: 0.1, certificate: "c" };
const start = { samples: 1, max_tokens: 960, policy, guarantee, no_guarantee_reason: null };
const question = { problem: "x", alpha: 0.1, n: 1, risk: "selective", vote: "confidence" };
const sample = (exit, tokens, more = {}) => ({ exit, answer: "14", confidence: 0.8, reasoning_tokens: tokens, answer_tokens: 4, ...more });
const solution = (samples, more = {}) => ({ answer: "14", abstained: false, confidence: 0.8, samples, tally: {}, ...more });
const abstention = { answer: null, abstained: true, confidence: null };

test("a high exit is the example of the page", () => {
  const told = plain(explain(question, start, solution([sample("high", 96)])));
  assert.equal(
    told,
    "You accepted a wrong answer in 1 of 10 answered questions. " +
      "So the model stopped as soon as its confidence reached 0.75, after 96 of 960 tokens.",
  );
});

test("a low exit says for how long it was unsure, and that it abstains", () => {
  const told = plain(explain(question, start, solution([sample("low", 128, { answer: null })], abstention)));
  assert.match(told, /at or below 0\.40 for 128 tokens\. That happened after 128 of 960 tokens, so the service abstains instead of guessing/);
});

test("a natural end says what an answer needed", () => {
  const told = plain(explain(question, start, solution([sample("natural", 492, { answer: null, confidence: 0.465 })], abstention)));
  assert.match(told, /It never did before its thinking ended\. It finished after 492 of 960 tokens, with a confidence of 0\.46\. An answer needs 0\.70/);
  const kept = plain(explain(question, start, solution([sample("natural", 492, { confidence: 0.72 })])));
  assert.match(kept, /with a confidence of 0\.72, and an answer needs 0\.70\.$/);
});

test("a reading is held against its threshold as it was read, not as it is written", () => {
  const needs = { ...start, policy: { ...policy, lambda_answer: 0.705 } };
  const unread = solution([sample("natural", 492, { answer: null, confidence: 0.707 })], abstention);
  assert.match(plain(explain(question, needs, unread)), /after 492 of 960 tokens, but its answer could not be read\.$/);
  const below = solution([sample("natural", 492, { answer: null, confidence: 0.7049 })], abstention);
  assert.match(plain(explain(question, needs, below)), /a confidence of 0\.704\. An answer needs 0\.705, so the service abstains instead of guessing/);
});

test("a reading that missed its threshold by little is not written like it", () => {
  const needs = { ...start, policy: { ...policy, lambda_answer: 0.65004 } };
  const below = solution([sample("natural", 492, { answer: null, confidence: 0.65001 })], abstention);
  assert.match(plain(explain(question, needs, below)), /a confidence of 0\.65001\. An answer needs 0\.65004, so/);
});

test("with smoothing the smoothed confidence is told, which the rule compares", () => {
  const smooth = { ...start, policy: { ...policy, smoothing: 0.5 } };
  const read = [{ readings: [0.4, 0.72], finalRead: true }];
  const ended = solution([sample("natural", 492, { answer: null, confidence: 0.72 })], abstention);
  const told = plain(explain(question, smooth, ended, read));
  assert.match(told, /with a smoothed confidence of 0\.56\. An answer needs 0\.70, so the service abstains instead of guessing/);
});

test("a level that was passed over is named", () => {
  const lower = { ...start, guarantee: { ...guarantee, alpha_requested: 0.15 } };
  assert.match(plain(explain({ ...question, alpha: 0.15 }, lower, solution([sample("high", 96)]))), /largest certified level below it is 10%, so that level applied/);
});

test("without a guarantee none is suggested", () => {
  const told = plain(explain(question, { ...start, guarantee: null }, solution([sample("high", 96)])));
  assert.match(told, /A stopping rule applied, but without a guarantee/);
  const full = { ...start, guarantee: null, policy: { lambda_low: -1, lambda_high: 1.01 } };
  assert.match(plain(explain(question, full, solution([sample("natural", 430)]))), /so the model used its full budget, without a guarantee/);
});

test("several samples are counted by how they ended", () => {
  const vote = { ...start, samples: 4, policy: { ...policy, lambda_vote: 0.5 } };
  const samples = [sample("high", 64), sample("high", 96), sample("natural", 400), sample("cancelled", 97, { answer: null, confidence: null })];
  const told = plain(explain({ ...question, n: 4 }, vote, solution(samples, { confidence: 0.66 })));
  assert.match(told, /So an answer needs 50% of the vote\. 2 of 4 samples stopped as soon as their confidence reached 0\.75, after 64 to 96 of 960 tokens/);
  assert.match(told, /and 1 of 4 samples finished after 400 of 960 tokens\./);
  assert.match(told, /1 of 4 samples could no longer change the result, and was cancelled\./);
  assert.match(told, /“14” won 66.0% of the vote\.$/);
});

test("samples that the vote stop ended are told apart from those that could change nothing", () => {
  const vote = { ...start, samples: 4, policy: { ...policy, lambda_stop: 0.3 } };
  const samples = [sample("high", 64), sample("high", 96), ...[1, 2].map(() => sample("cancelled", 97, { answer: null, confidence: null }))];
  const told = plain(explain({ ...question, n: 4 }, vote, solution(samples, { confidence: 1 })));
  assert.match(told, /2 of 4 samples still thought when one answer was far enough ahead, and were cancelled\./);
});

test("an abstention that cost nothing says so", () => {
  const none = { ...start, samples: 4, policy: null, guarantee: null };
  assert.match(plain(explain(question, none, solution([], abstention))), /abstained without thinking/);
});

test("a confidence that could not be read at an own end is told as such", () => {
  const blind = { answer: null, confidence: null };
  const told = (ended, policy_ = policy, read = []) => plain(explain(question, { ...start, samples: ended.length, policy: policy_ }, solution(ended, abstention), read));
  const words = /of 960 tokens, but its confidence could not be read, so the service abstains instead of guessing\.$/;
  for (const lambda_answer of [0, 0.7]) assert.match(told([sample("natural", 492, blind)], { ...policy, lambda_answer }), words);
  const smooth = { ...policy, smoothing: 0.5 };
  assert.match(told([sample("natural", 492, { answer: null })], smooth, [{ readings: [NaN, 0.8], finalRead: true }]), words);
  assert.match(told([sample("budget", 960, blind)]), /It used up all 960 tokens, but its confidence could not be read/);
  const both = [sample("natural", 400, blind), sample("budget", 960, blind)];
  assert.match(told(both), /The confidence of no sample could be read at its end, so the service abstains instead of guessing\.$/);
  const mixed = [sample("natural", 400, blind), sample("natural", 500, { answer: null, confidence: 0.2 })];
  assert.match(told(mixed), /No sample was confident enough to answer/);
});

test("an answer that cannot be read is no lack of confidence", () => {
  const unread = { answer: null };
  const told = (end, of = start) => plain(explain(question, of, solution(end, abstention)));
  assert.match(told([sample("high", 96, unread)]), /reached 0\.75, after 96 of 960 tokens, but its answer could not be read\.$/);
  assert.match(told([sample("low", 96, unread)]), /so the service abstains instead of guessing\.$/);
  assert.match(told([sample("low", 96, unread)], { ...start, policy: { ...policy, answer_on_low: true } }), /but its answer could not be read\.$/);
  const two = [sample("high", 96, unread), sample("natural", 400, unread)];
  assert.match(told(two, { ...start, samples: 2 }), /No answer could be read in what the samples wrote\.$/);
});
