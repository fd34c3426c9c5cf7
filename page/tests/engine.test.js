import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { engineNow } from "../../rlcm_serve/page/static/js/engine.js";

const real = globalThis.fetch;
const awake = setInterval(() => {}, 1_000); // a signal's own timer does not keep Node from ending
const base = new URL("http://service/");

afterEach(() => {
  globalThis.fetch = real;
});
test.after(() => clearInterval(awake));

const answering = (answer) => {
  globalThis.fetch = async (_, init) => answer(init);
};

test("the engine's state is what the service says of it", async () => {
  answering(() => new Response(""));
  assert.deepEqual(await engineNow(base), { state: "ready", stage: "" });
  answering(() => Response.json({ state: "starting", stage: "loading" }, { status: 503 }));
  assert.deepEqual(await engineNow(base), { state: "starting", stage: "loading" });
  answering(() => Response.json({ state: "degraded" }, { status: 503 }));
  assert.deepEqual(await engineNow(base), { state: "degraded", stage: "" });
});

test("a service that does not answer in time is gone", async () => {
  answering(({ signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))));
  assert.deepEqual(await engineNow(base, 20), { state: "gone", stage: "" });
});
