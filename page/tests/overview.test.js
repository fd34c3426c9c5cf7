import assert from "node:assert/strict";
import { test } from "node:test";

import { createHistory, generated } from "../../rlcm_serve/page/static/js/operate/overview.js";

const seen = (uptime, running, tokens = 0, process = "a") => ({ uptime_s: uptime, process, queue: { running, waiting: 0 }, tokens: { reasoning: tokens } });

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
  for (const at of [100, 102]) history.add(seen(at, 1));
  history.add(seen(3, 1, 0, "b"));
  assert.deepEqual(history.moments().map(({ at }) => at), [3]);
  assert.equal(history.isOneOfSeveral(), false, "the first may have ended");
});

test("processes that answer in turn have a history each", () => {
  const history = createHistory();
  for (let at = 0; at < 8; at += 2) {
    history.add(seen(at, 1, 10 * at, "a"));
    history.add(seen(1000 + at, 2, 50 * at, "b"));
  }
  assert.deepEqual(history.moments().map(({ at }) => at), [1000, 1002, 1004, 1006]);
  assert.equal(history.rate(), 50);
  assert.equal(history.isOneOfSeveral(), true);
});

test("what nobody saw is in no rate", () => {
  const history = createHistory();
  for (const at of [0, 2, 60]) history.add(seen(at, 1, 100 * at));
  assert.equal(history.rate(), null);
  history.add(seen(62, 1, 6200));
  assert.equal(history.rate(), 100);
});

test("the rate is that of the last half minute", () => {
  const history = createHistory();
  assert.equal(history.rate(), null);
  history.add(seen(0, 1, 0));
  assert.equal(history.rate(), null, "of one moment there is none");
  for (let at = 8; at <= 40; at += 8) history.add(seen(at, 1, at <= 16 ? 0 : 10 * (at - 16)));
  assert.equal(history.rate(), 240 / 24, "since 16 s");
});
