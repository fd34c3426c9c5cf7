import assert from "node:assert/strict";
import { test } from "node:test";

import { queueTiles, sinceStart, whoseWords } from "../../rlcm_serve/page/static/js/operate/overview.js";

const queue = { running: 2, running_limit: 8, waiting: 1, waiting_limit: 16, drain_per_second: null };

test("figures of one key are not told as the service's", () => {
  assert.equal(whoseWords("service"), "");
  assert.match(whoseWords("key"), /^Figures of your key alone/);
  assert.deepEqual([sinceStart("service"), sinceStart("key")], ["since the start", "with your key since the start"]);
});

test("the queue of one key is out of no limit of the service", () => {
  assert.deepEqual(queueTiles(queue, "service"), { running: ["2", "of at most 8", 0.25], waiting: ["1", "of 16 places", 0.0625] });
  assert.deepEqual(queueTiles({ ...queue, drain_per_second: 0.5 }, "service").waiting[1], "of 16 places; 0.5 finish per second");
  assert.deepEqual(queueTiles(queue, "key"), { running: ["2", "asked with your key"], waiting: ["1", "asked with your key"] });
});
