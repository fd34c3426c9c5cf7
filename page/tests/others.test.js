import assert from "node:assert/strict";
import { test } from "node:test";

import { madeOf } from "../../rlcm_serve/page/static/js/watch/others.js";

const policy = { lambda_low: 0.4, lambda_high: 0.9, patience: 64, lambda_answer: 0.7, lambda_vote: 0.5 };
const sample = (readings, exit, more = {}) => ({
  at: readings.map((_, i) => 32 * (i + 1)),
  readings,
  finalRead: exit === "natural",
  exit: { exit, tokens: 32 * readings.length, confidence: readings.at(-1) },
  end: { answer: "7", answer_tokens: 4 },
  ...more,
});
const run = (samples, more = {}) => ({ samples, vote: null, solution: { answer: "7", abstained: false, confidence: 0.6 }, ...more });
const made = (rule, of, mine = false) => madeOf(rule, of, mine).replace(/\u00a0/g, " ");

test("a rule that stops sooner is known to have answered, or to have given up", () => {
  const one = run([sample([0.5, 0.8, 0.95], "high")]);
  assert.equal(made({ ...policy, lambda_high: 0.8 }, one), "▲ stopped early after 64 tokens, and answers");
  assert.equal(made({ ...policy, lambda_low: 0.8 }, one), "▼ low confidence after 64 tokens, and abstains");
  assert.equal(made({ ...policy, lambda_low: 0.8, answer_on_low: true }, one), "▼ low confidence after 64 tokens, and answers");
});

test("of a rule that would have continued no more than that is known", () => {
  assert.equal(made({ ...policy, lambda_high: 0.99 }, run([sample([0.5, 0.95], "high")])), "would have continued");
});

test("a natural end answers at the confidence that a rule needs there", () => {
  const one = run([sample([0.5, 0.72], "natural")]);
  assert.equal(made(policy, one), "● finished, and answers");
  assert.equal(made({ ...policy, lambda_answer: 0.725 }, one), "● finished, and abstains");
  const unread = run([sample([0.5, 0.72], "natural", { end: { answer: null, answer_tokens: 0 } })]);
  assert.equal(made(policy, unread), "● finished");
});

test("a sample that used up its budget is said to have done so", () => {
  const spent = sample([0.5, 0.72], "budget", { finalRead: true });
  assert.equal(made(policy, run([spent])), "■ out of budget, and answers");
  const both = run([spent, sample([0.5, 0.72], "natural")], { vote: { leader: "7", share: 0.6 } });
  assert.match(made({ ...policy, lambda_answer: 0 }, both), /^● 1 finished, ■ 1 out of budget/);
});

test("at a natural end the smoothed confidence counts", () => {
  const one = run([sample([0.4, 0.72], "natural")]);
  assert.equal(made({ ...policy, lambda_low: -1, smoothing: 0.5 }, one), "● finished, and abstains"); // 0.56
});

test("a last reading at the end stops nothing, however high it is", () => {
  assert.equal(made({ ...policy, lambda_high: 0.7, lambda_low: -1 }, run([sample([0.5, 0.72], "natural")])), "● finished, and answers");
});

test("the rule in force says what was given", () => {
  const one = run([sample([0.5, 0.95], "high")]);
  assert.equal(made(policy, one, true), "▲ stopped early after 64 tokens, and answers");
  const abstention = run([sample([0.3, 0.3], "low")], { solution: { answer: null, abstained: true, confidence: null } });
  assert.equal(made(policy, abstention, true), "▼ low confidence after 64 tokens, and abstains");
});

test("several samples are counted, and those that were ended are spared by the rule in force alone", () => {
  const samples = [sample([0.5, 0.95], "high"), sample([0.92], "high"), sample([0.6, 0.6], "cancelled")];
  const all = run(samples, { vote: { leader: "7", share: 0.6 } });
  assert.equal(made(policy, all, true), "▲ 2 stopped early after 32 to 64 tokens, ✕ 1 no longer needed, and answers 7");
  assert.equal(made(policy, all), "▲ 2 stopped early after 32 to 64 tokens, 1 would have continued");
});

test("a vote that came about in the same way is held against what another rule needs of it", () => {
  const all = run([sample([0.5, 0.95], "high"), sample([0.92], "high")], { vote: { leader: "7", share: 0.6 } });
  const rule = { ...policy, lambda_answer: 0 };
  assert.equal(made(rule, all), "▲ 2 stopped early after 32 to 64 tokens, and answers 7");
  assert.equal(made({ ...rule, lambda_vote: 0.7 }, all), "▲ 2 stopped early after 32 to 64 tokens, and abstains");
  assert.equal(made({ ...rule, lambda_high: 0.5 }, all), "▲ 2 stopped early after 32 tokens");
});
