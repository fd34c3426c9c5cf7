import assert from "node:assert/strict";
import { test } from "node:test";

import { createHistory, generated } from "../../rlcm_serve/page/static/js/operate/overview.js";

const seen = (uptime, running, tokens = 0) => ({ uptime_s: uptime, queue: { running, waiting: 0 }, tokens: { reasoning: tokens } });

test("what was read or put in was not generated", () => {
  assert.equal(generated({ tokens: { prompt: 1, suffix: 2, cached_prompt: 1, reasoning: 10, answer: 20, discarded: 30, cancelled: 40 } }), 100);
  assert.equal(generated({ tokens: {} }), 0);
});

test("five minutes are kept", () => {
  const history = createHistory();
  for (let at = 0; at <= 400; at += 2) history.add(seen(at, at));
  const kept = history.moments().map(({ at }) => at);
  assert.deepEqual([kept[0], kept[kept.length - 1]], [100, 400]);
});

test("where nobody looked there is a gap", () => {
  const history = createHistory();
  for (const at of [10, 12, 90]) history.add(seen(at, 1));
  assert.deepEqual(history.moments().map(({ at, running }) => [at, running]), [[10, 1], [12, 1], [89, null], [90, 1]]);
});

test("the same moment is not told twice", () => {
  const history = createHistory();
  for (const at of [10, 10]) history.add(seen(at, 1));
  assert.equal(history.moments().length, 1);
});

test("another service begins anew", () => {
  const history = createHistory();
  for (const at of [100, 102, 3]) history.add(seen(at, 1));
  assert.deepEqual(history.moments().map(({ at }) => at), [3]);
});

test("the rate is that of the last half minute", () => {
  const history = createHistory();
  assert.equal(history.rate(), null);
  history.add(seen(0, 1, 0));
  assert.equal(history.rate(), null, "of one moment there is none");
  for (let at = 8; at <= 40; at += 8) history.add(seen(at, 1, at <= 16 ? 0 : 10 * (at - 16)));
  assert.equal(history.rate(), 240 / 24, "since 16 s");
});
