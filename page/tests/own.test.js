import assert from "node:assert/strict";
import { test } from "node:test";

import { titlesOf } from "../../rlcm_serve/page/static/js/operate/active-certificates.js";
import { queueTiles, sinceStart, whoseWords } from "../../rlcm_serve/page/static/js/operate/overview.js";

const queue = { running: 2, running_limit: 8, waiting: 1, waiting_limit: 16, drain_per_second: null };

test("figures of one key are not told as the service's", () => {
  assert.equal(whoseWords("service", false), "");
  assert.match(whoseWords("key", false), /^Figures of your key alone/);
  assert.match(whoseWords("service", true), /^Several processes answer here/);
  assert.deepEqual([sinceStart("service"), sinceStart("key")], ["since the start", "with your key since the start"]);
});

test("the queue of one key is out of no limit of the service", () => {
  assert.deepEqual(queueTiles(queue, "service"), { running: ["2", "of at most 8", 0.25], waiting: ["1", "of 16 places", 0.0625] });
  assert.deepEqual(queueTiles({ ...queue, drain_per_second: 0.5 }, "service").waiting[1], "of 16 places; 0.5 finish per second");
  assert.deepEqual(queueTiles(queue, "key"), { running: ["2", "asked with your key"], waiting: ["1", "asked with your key"] });
});

test("certificates that differ in kind or budget have titles of their own", () => {
  const one = { risk: "selective", n: 1, vote: "confidence", max_tokens: 960, profiles: ["default"], kind: null };
  const kind = (name) => ({ by: "topic", name, certified: ["algebra"], pooled: [], delta: 0.1 });
  const titles = [...titlesOf([{ ...one, id: "a", kind: kind("algebra") }, { ...one, id: "b", kind: kind(null) }, { ...one, id: "c" }, { ...one, id: "d", max_tokens: 480 }]).values()];
  assert.equal(new Set(titles).size, 4);
  assert.match(titles[0], /1 sample, topic “algebra”$/);
  assert.match(titles[3], /, budget of 480.tokens$/);
});
