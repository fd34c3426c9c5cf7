import assert from "node:assert/strict";
import { test } from "node:test";

import { knownCertificates } from "../../rlcm_serve/page/static/js/ask/known.js";
import { stateLine } from "../../rlcm_serve/page/static/js/trust/picker.js";

const listed = (...ids) => ({ certificates: ids.map((id) => ({ id })), max_tokens: 960 });
const run = (start, done = start) => ({ start: { guarantee: start }, solution: { guarantee: done } });

/** The list, from a service that answers with each body once. */
function following(bodies, state = "ready") {
  const read = [];
  const get = async () => {
    const body = bodies.shift();
    if (!body) throw new Error("asked too often");
    return body;
  };
  const known = knownCertificates({ get }, { now: () => ({ state }) }, ({ certificates }) => read.push(certificates.map(({ id }) => id).join()));
  return { known, read };
}

test("after an answer without its guarantee the list is read again", async () => {
  const { known, read } = following([listed("a"), listed("b")]);
  await known.learn();
  await known.after(run({ certificate: "a" }));
  assert.deepEqual(read, ["a"], "what it is answered under is known, and was given");
  await known.after(run({ certificate: "a" }, null));
  await known.learn(); // the same reading
  assert.deepEqual(read, ["a", "b"]);
});

test("a certificate that is not known is looked for before the answer is told", async () => {
  const { known, read } = following([listed("a"), listed("a", "b")]);
  await known.learn();
  await known.after(run({ certificate: "b" }));
  assert.deepEqual([read.length, known.all().length], [2, 2]);
});

test("it is refreshed while the engine is ready, once at a time, and a failure keeps what is known", async () => {
  const { known, read } = following([listed("a")]);
  await Promise.all([known.refresh(), known.refresh()]);
  await known.refresh();
  assert.deepEqual([read, known.all().map(({ id }) => id)], [["a"], ["a"]]);
  const starting = following([listed("a")], "starting");
  await starting.known.refresh();
  assert.deepEqual(starting.read, []);
});

test("the list of certificates says of each why it promises nothing", () => {
  const good = { active: true, fits: true, withdrawn: null, voided: null };
  assert.equal(stateLine(good), null);
  assert.equal(stateLine({ ...good, withdrawn: "risk alarm" }), "✕ promise withdrawn");
  assert.equal(stateLine({ ...good, voided: "dtype" }), "✕ no guarantee on this engine");
  assert.equal(stateLine({ ...good, active: false }), "○ not active");
});

test("settings are covered by an active certificate for them", async () => {
  const one = { id: "a", active: true, voided: null, risk: "selective", profiles: ["default"], kind: null, procedure: { n: 4, vote: "confidence", max_tokens: 960 } };
  const { known } = following([{ certificates: [one], max_tokens: 960 }]);
  const question = { risk: "selective", n: 4, vote: "confidence", kind: "" };
  assert.equal(known.covers(question), false, "nothing is known yet");
  await known.learn();
  assert.deepEqual([known.covers(question), known.covers({ ...question, n: 2 }), known.covers({ ...question, risk: "error" })], [true, false, false]);
});
