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
