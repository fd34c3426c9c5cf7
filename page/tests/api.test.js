import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { createApi, Problem, wasAborted } from "../../rlcm_serve/page/static/js/api.js";

const real = globalThis.fetch;
/** The question, and what answers it: a response, an error, or a function of the request. */
let asked = [];
let answers = [];
let awake;

beforeEach(() => {
  awake = setInterval(() => {}, 1_000); // a signal's own timer does not keep Node from ending
  asked = [];
  answers = [];
  globalThis.fetch = async (url, init) => {
    asked.push({ url: String(url), ...init });
    const answer = answers.shift();
    const given = typeof answer === "function" ? await answer(init) : answer;
    if (given instanceof Error) throw given;
    return given;
  };
});
afterEach(() => {
  clearInterval(awake);
  globalThis.fetch = real;
});

const problem = (status, fields = {}, headers = {}) =>
  new Response(JSON.stringify({ type: "urn:rlcm:problem:it", title: "It", status, detail: "this", ...fields }), { status, headers });

/** A response whose body breaks after some bytes. */
const broken = () =>
  new Response(
    new ReadableStream({
      pull(controller) {
        controller.enqueue(new TextEncoder().encode('{"a":'));
        controller.error(new TypeError("network error"));
      },
    }),
  );

/** Never answers; says so once it is aborted. */
const silent = ({ signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));

function client({ key = null, give = async () => false, silenceMs } = {}) {
  return createApi({ base: new URL("http://service/"), getKey: () => key, onKeyNeeded: give, silenceMs });
}

const isLost = (error) => error instanceof Problem && error.kind === "connection-lost" && error.status === 0;

test("what the service says is wrong is a problem, with what it says of it", async () => {
  answers = [problem(429, { type: "urn:rlcm:problem:overloaded", detail: "busy" }, { "Retry-After": "7" })];
  await assert.rejects(client().get("x"), (error) => {
    assert.deepEqual([error.status, error.kind, error.detail, error.retryAfter], [429, "overloaded", "busy", 7]);
    return error instanceof Problem;
  });
});

test("an error that is no problem document keeps its status", async () => {
  answers = [new Response("<html>", { status: 502, statusText: "Bad Gateway" })];
  await assert.rejects(client().get("x"), (error) => error instanceof Problem && error.status === 502);
});

test("without a whole answer the connection was lost, however it broke", async () => {
  for (const answer of [new TypeError("fetch failed"), broken(), new Response("<html>"), new Response("")]) {
    answers = [answer];
    await assert.rejects(client().get("x"), isLost);
  }
});

test("a service that is silent for too long is lost, and what was aborted is not", async () => {
  answers = [silent];
  await assert.rejects(client().get("x", undefined, 20), isLost);
  answers = [silent];
  const leaving = new AbortController();
  const asking = client().get("x", leaving.signal, 10_000);
  leaving.abort();
  await assert.rejects(asking, wasAborted);
});

test("a body may be late too, or be aborted", async () => {
  const stalled = ({ signal }) =>
    new Response(new ReadableStream({ start: (controller) => signal.addEventListener("abort", () => controller.error(signal.reason)) }));
  answers = [stalled];
  await assert.rejects(client().get("x", undefined, 20), isLost);
  answers = [stalled];
  const leaving = new AbortController();
  const asking = client().get("x", leaving.signal);
  setTimeout(() => leaving.abort(), 5);
  await assert.rejects(asking, wasAborted);
});

test("while a key is asked for, no time passes", async () => {
  answers = [problem(401), Response.json({ a: 1 })];
  let key = null;
  const slowly = async () => {
    await new Promise((typed) => setTimeout(typed, 60));
    key = "rlcm_k";
    return true;
  };
  const api = createApi({ base: new URL("http://service/"), getKey: () => key, onKeyNeeded: slowly });
  assert.deepEqual(await api.get("x", new AbortController().signal, 30), { a: 1 });
  assert.deepEqual(asked.map(({ headers }) => headers.get("Authorization")), [null, "Bearer rlcm_k"]);
});

test("without a key the refusal is told", async () => {
  answers = [problem(401)];
  await assert.rejects(client().get("x"), (error) => error.status === 401);
  assert.equal(asked.length, 1);
});

test("a stream is posted for, and read event by event", async () => {
  answers = [new Response('event: a\ndata: {"x":1}\n\nevent: b\ndata: 2\n\n')];
  const got = [];
  await client({ key: "k" }).events("solve", { n: 1 }, (name, data) => got.push([name, data]));
  assert.deepEqual(got, [["a", { x: 1 }], ["b", 2]]);
  assert.deepEqual([asked[0].method, asked[0].body], ["POST", '{"n":1}']);
});

test("a stream that falls silent is lost", async () => {
  answers = [new Response(new ReadableStream({}))];
  await assert.rejects(client({ silenceMs: () => 20 }).events("solve", {}, () => {}), isLost);
});

test("a stream that breaks, or that cannot be read, is lost; a mistake of the page is not", async () => {
  answers = [broken(), new Response("data: {\n\n"), new Response("data: 1\n\n")];
  await assert.rejects(client().events("solve", {}, () => {}), isLost);
  await assert.rejects(client().events("solve", {}, () => {}), isLost);
  const mistake = () => {
    throw new RangeError("mine");
  };
  await assert.rejects(client().events("solve", {}, mistake), RangeError);
});

test("another key is no remedy where the page's own address is refused", () => {
  const refused = (status, kind) => new Problem({ status, type: `urn:rlcm:problem:${kind}` });
  assert.deepEqual([refused(401, "unauthenticated").retryWords("Again"), refused(403, "forbidden").retryWords("Again")], ["Give a key", "Use another key"]);
  assert.deepEqual([refused(403, "cross-origin").refusesKey, refused(403, "cross-origin").retryWords("Again")], [false, "Again"]);
});
