import assert from "node:assert/strict";
import { test } from "node:test";

import { readEvents, StreamBroken } from "../../rlcm_serve/page/static/js/sse.js";

const bytes = (text) => new TextEncoder().encode(text);

function streamOf(text, size) {
  const all = bytes(text);
  return new ReadableStream({
    start(controller) {
      for (let at = 0; at < all.length; at += size) controller.enqueue(all.slice(at, at + size));
      controller.close();
    },
  });
}

test("events are the same however the bytes are cut", async () => {
  const text = 'event: a\ndata: {"x":1}\n\n: ping\n\nevent: b\r\ndata: one\r\ndata: zwölf\r\n\r\ndata: cut off';
  for (const size of [1, 2, 3, 7, 1000]) {
    const got = [];
    await readEvents(streamOf(text, size), (name, data) => got.push([name, data]));
    assert.deepEqual(got, [["a", '{"x":1}'], ["b", "one\nzwölf"]], `in pieces of ${size}`);
  }
});

test("a connection that breaks is told from a stream that ends", async () => {
  const broken = new ReadableStream({ start: (controller) => controller.error(new TypeError("network error")) });
  await assert.rejects(readEvents(broken, () => {}), StreamBroken);
});

test("a mistake in the listener is not taken for a broken connection", async () => {
  const fail = () => {
    throw new RangeError("mine");
  };
  await assert.rejects(readEvents(streamOf("data: x\n\n", 100), fail), RangeError);
});

/** A stream of one event, then nothing but comments, and at last nothing at all. */
function stalling(comments, everyMs) {
  let sent = 0;
  let cancelled = false;
  const stream = new ReadableStream({
    start: (controller) => controller.enqueue(bytes("data: 1\n\n")),
    async pull(controller) {
      await new Promise((resolve) => setTimeout(resolve, everyMs));
      sent += 1;
      if (sent <= comments) controller.enqueue(bytes(": ping\n\n"));
      else await new Promise(() => {});
    },
    cancel: () => {
      cancelled = true;
    },
  });
  return { stream, sent: () => sent, cancelled: () => cancelled };
}

test("a connection on which nothing comes any more is broken, one with heartbeats is not", async () => {
  const { stream, sent, cancelled } = stalling(4, 20);
  const got = [];
  await assert.rejects(readEvents(stream, (_, data) => got.push(data), 60), StreamBroken);
  assert.deepEqual([got, sent(), cancelled()], [["1"], 5, true]);
});

test("the clock stands still once the stream has ended", async () => {
  const began = performance.now();
  await readEvents(streamOf("data: x\n\n", 100), () => {}, 10_000);
  assert.ok(performance.now() - began < 5_000); // and Node ends, which a timer would prevent
});
