import assert from "node:assert/strict";
import { test } from "node:test";
import { beforeNow } from "../../rlcm_serve/page/static/js/live/figures.js";

const NOW = "2026-01-12T09:30:00Z";
const ago = (minutes) => ({ time: new Date(Date.parse(NOW) - 60_000 * minutes).toISOString() });

test("times before now are in a unit of which they span two", () => {
  assert.deepEqual(beforeNow([ago(20), ago(5)], NOW), { unit: "minutes", x: [-20, -5] });
  assert.deepEqual(beforeNow([ago(240), ago(60)], NOW), { unit: "hours", x: [-4, -1] });
  assert.deepEqual(beforeNow([ago(2 * 1440), ago(720)], NOW), { unit: "days", x: [-2, -0.5] });
});
