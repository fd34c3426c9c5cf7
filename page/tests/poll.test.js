import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";

import { Problem } from "../../rlcm_serve/page/static/js/api.js";
import { createPoller, EVERY_MS, pause } from "../../rlcm_serve/page/static/js/operate/poll.js";

const page = Object.assign(new EventTarget(), { hidden: false });
let told = [];
let answers = [];
let signals = [];
let poller;

/** Lets what has been asked be answered. */
const settle = () => new Promise((done) => setImmediate(done));

async function pass(ms) {
  mock.timers.tick(ms);
  await settle();
}

function look(hidden) {
  page.hidden = hidden;
  page.dispatchEvent(new Event("visibilitychange"));
}

beforeEach(() => {
  mock.timers.enable({ apis: ["setTimeout"] });
  globalThis.document = page;
  page.hidden = false;
  told = [];
  answers = [];
  signals = [];
  poller = createPoller({
    ask: async (signal) => {
      signals.push(signal);
      const answer = await (answers.shift() ?? "calm");
      if (answer instanceof Error) throw answer;
      return answer;
    },
    onData: (data) => told.push(data),
    onProblem: (problem, wait) => told.push([problem.detail || problem.title, wait]),
  });
});
afterEach(() => {
  poller.stop();
  mock.timers.reset();
  mock.restoreAll();
});

const down = (fields = {}, retryAfter) => new Problem({ status: 503, detail: "down", ...fields }, retryAfter);

test("it asks at once, and then every two seconds, until it is stopped", async () => {
  poller.start();
  await settle();
  assert.deepEqual(told, ["calm"]);
  await pass(EVERY_MS - 1);
  assert.equal(told.length, 1);
  await pass(1);
  await pass(EVERY_MS);
  assert.equal(told.length, 3);
  poller.stop();
  await pass(10 * EVERY_MS);
  assert.equal(told.length, 3);
});

test("after failures it waits longer, and is as before once it is answered", async () => {
  answers = [down(), down(), "well", "well"];
  poller.start();
  await settle();
  await pass(2_000);
  await pass(3_999);
  assert.deepEqual(told, [["down", 2_000], ["down", 4_000]]);
  await pass(1);
  await pass(EVERY_MS);
  assert.deepEqual(told.slice(2), ["well", "well"]);
});

test("it waits at most half a minute, and as long as the service says", () => {
  assert.deepEqual([0, 1, 2, 3, 4, 9].map((failures) => pause(failures)), [2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
  assert.equal(pause(0, 7), 7_000);
  assert.equal(pause(0, 600), 30_000);
});

test("a key that is refused is not tried again by itself", async () => {
  for (const status of [401, 403]) {
    answers = [down({ status })];
    poller.start();
    await settle();
    await pass(60_000);
  }
  assert.deepEqual(told, [["down", null], ["down", null]]);
  poller.start();
  await settle();
  assert.equal(told[2], "calm");
});

test("a mistake of the page is told, and it goes on asking", async () => {
  const written = mock.method(console, "error", () => {});
  answers = [new TypeError("mine"), "well"];
  poller.start();
  await settle();
  assert.deepEqual(told, [["TypeError: mine", 2_000]]);
  assert.equal(written.mock.callCount(), 1);
  await pass(2_000);
  assert.equal(told[1], "well");
});

test("what is answered after it was stopped is not told, and is ended", async () => {
  let answer = () => {};
  answers = [new Promise((resolve) => (answer = resolve))];
  poller.start();
  poller.stop();
  assert.equal(signals[0].aborted, true);
  answer("late");
  await settle();
  assert.deepEqual(told, []);
});

test("while nobody looks it rests, and it asks at once when somebody does", async () => {
  poller.start();
  await settle();
  look(true);
  await pass(60_000);
  assert.equal(told.length, 1);
  look(false);
  await settle();
  assert.equal(told.length, 2);
  poller.stop();
  look(true);
  look(false);
  await settle();
  assert.equal(told.length, 2, "stopped is stopped");
});
