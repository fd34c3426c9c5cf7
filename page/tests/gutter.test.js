import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";

import { GUTTER, gutterOf, LINE, spread, thresholdLabels } from "../../rlcm_serve/page/static/js/watch/gutter.js";
import { reachOf, ticksUpTo } from "../../rlcm_serve/page/static/js/watch/reach.js";

const models = new URL("../../rlcm_serve/models/", import.meta.url);
const certificates = ["embedded", "embedded-sft"].flatMap((model) => {
  const folder = new URL(`${model}/certificates/`, models);
  const files = readdirSync(folder).filter((name) => name.endsWith(".json"));
  return files.map((name) => JSON.parse(readFileSync(new URL(name, folder), "utf8")));
});
const policies = certificates.flatMap((one) => one.levels.filter((level) => level.policy).map((level) => level.policy));

test("no two labels of any shipped certificate's level lie on each other, at any height of a plot", () => {
  assert.ok(policies.length > 30);
  for (const policy of policies) {
    for (const [top, bottom] of [[14, 198], [12, 110], [12, 240]]) {
      const y = (value) => bottom - (value / 1.06) * (bottom - top);
      const middles = thresholdLabels(policy, y, bottom).map((label) => label.y).sort((a, b) => a - b);
      for (const [at, middle] of middles.entries()) {
        assert.ok(middle >= LINE / 2 && middle <= bottom);
        if (at) assert.ok(middle - middles[at - 1] >= LINE - 1e-9);
      }
    }
  }
});

test("a label has its threshold as the page writes it elsewhere, and room for its decimals", () => {
  const close = { lambda_low: 0.4, lambda_high: 0.9999546 };
  const texts = (policy) => thresholdLabels(policy, () => 0, 100).map(({ text }) => text);
  assert.ok(texts(close).includes("0.999954 stop"));
  assert.ok(gutterOf(close) > GUTTER);
  assert.equal(gutterOf({ lambda_low: 0.4, lambda_high: 0.9755 }), GUTTER);
});

test("labels that are far apart stay beside their lines", () => {
  assert.deepEqual(spread([{ y: 20 }, { y: 80 }], 100, 16).map((one) => one.y), [80, 20]);
  assert.deepEqual(spread([{ y: 20 }, { y: 21 }], 100, 16).map((one) => one.y), [36, 20]);
  assert.deepEqual(spread([{ y: 99 }, { y: 100 }], 100, 16).map((one) => one.y), [100, 84]);
});

test("the axis fits the usual length, and grows with a sample that takes longer", () => {
  assert.equal(reachOf(0, 400, 960), 500);
  assert.equal(reachOf(470, 400, 960), 500);
  assert.equal(reachOf(480, 400, 960), 750);
  assert.equal(reachOf(960, 400, 960), 960);
  assert.equal(reachOf(0, 4000, 960), 960);
  assert.equal(reachOf(0, null, 32_768), 512);
});

test("ticks are round and within the axis", () => {
  assert.deepEqual(ticksUpTo(500, 5), [0, 100, 200, 300, 400, 500]);
  assert.deepEqual(ticksUpTo(435, 5), [0, 100, 200, 300, 400]);
  assert.deepEqual(ticksUpTo(960, 2), [0, 500]);
});
