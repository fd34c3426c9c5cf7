import assert from "node:assert/strict";
import { test } from "node:test";

import { untilReady, willBeReady } from "../../rlcm_serve/page/static/js/ask/waiting.js";

/** An engine that is in whatever state it is told to be. */
function engine(state, stage = "") {
  const listeners = new Set();
  let now = { state, stage };
  return {
    listeners,
    now: () => now,
    tell(state, stage = "") {
      now = { state, stage };
      for (const listener of listeners) listener(now);
    },
    subscribe(listener) {
      listeners.add(listener);
      listener(now);
      return () => listeners.delete(listener);
    },
  };
}
const settled = () => new Promise((resolve) => setTimeout(resolve));

test("a wait ends when the engine is ready, and says each stage until then", async () => {
  const one = engine("starting", "loading the weights");
  const said = [];
  const waiting = untilReady(one, new AbortController().signal, (words) => said.push(words));
  one.tell("starting", "checking the certificates");
  one.tell("gone");
  one.tell("ready");
  await waiting;
  await settled();
  assert.equal(said.length, 3);
  assert.match(said[0], /\(loading the weights\)/);
  assert.match(said[1], /\(checking the certificates\)/);
  assert.match(said[2], /cannot be reached/);
  for (const words of said) assert.match(words, /as soon as the engine is ready and this tab is in view\.$/, "nobody asks in a hidden tab");
  assert.equal(one.listeners.size, 0);
});

test("an engine that became ready meanwhile is not waited for", async () => {
  const one = engine("ready");
  await untilReady(one, new AbortController().signal, assert.fail);
  await settled();
  assert.equal(one.listeners.size, 0);
});

test("an engine that is given up ends the wait with what the service says of it", async () => {
  const one = engine("restarting", "attempt 3");
  const waiting = untilReady(one, new AbortController().signal, () => {});
  one.tell("failed", "given up after 3 attempts in a row");
  await assert.rejects(waiting, { kind: "not-ready", detail: "given up after 3 attempts in a row" });
  await settled();
  assert.equal(one.listeners.size, 0);
});

test("a wait that is aborted leaves nothing behind", async () => {
  const one = engine("starting");
  const controller = new AbortController();
  const waiting = untilReady(one, controller.signal, () => {});
  controller.abort();
  await assert.rejects(waiting, { name: "AbortError" });
  await settled();
  assert.equal(one.listeners.size, 0);
});

test("only an engine that is on its way is worth waiting for", () => {
  const states = ["unknown", "ready", "starting", "restarting", "failed", "stopping", "gone"];
  assert.deepEqual(states.filter((state) => willBeReady({ state, stage: "" })), ["starting", "restarting"]);
});

test("a wait ends too when the service answers without its database", async () => {
  const one = engine("gone");
  const waiting = untilReady(one, new AbortController().signal, () => {});
  one.tell("degraded");
  await waiting;
});
