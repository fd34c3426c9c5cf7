import assert from "node:assert/strict";
import { test } from "node:test";

import { allBut, atMost, beside, clock, confidence, count, decimalsOf, duration, frequency, list, measured, mostOf, percent, sentence, threshold, within } from "../../rlcm_serve/page/static/js/format.js";

test("a share never rounds to none or all of it", () => {
  assert.equal(percent(0.1), "10%");
  assert.equal(percent(0.025), "2.5%");
  assert.equal(measured(0.19), "19.0%");
  assert.equal(measured(0.134), "13.4%");
  assert.equal(measured(0.9996), "99.96%");
  assert.equal(measured(0.0001), "0.01%");
  assert.equal(measured(0), "0%");
  assert.equal(measured(1), "100%");
  assert.equal(within(0.046, 0.031, 0.062), "4.6% (3.1% to 6.2%)");
  assert.equal(within(0.046, null, null), "4.6%");
  assert.equal(percent(0.00004), "0.004%");
  assert.equal(percent(0.99999), "99.999%");
  assert.equal(percent(0), "0%");
  assert.equal(percent(1), "100%");
});

test("a reading below a threshold is not shown as if it had reached it", () => {
  assert.equal(confidence(0.7499), "0.74");
  assert.equal(confidence(0.75), "0.75");
  assert.equal(confidence(0.9999), "0.99");
  assert.equal(confidence(0.29), "0.29");
});

test("a reading that is no number is shown as none", () => {
  for (const none of [NaN, null, undefined]) assert.equal(confidence(none), "–");
});

test("a threshold keeps its decimals", () => {
  assert.equal(threshold(0.75), "0.75");
  assert.equal(threshold(0.4), "0.40");
  assert.equal(threshold(0.951), "0.951");
  assert.equal(threshold(0.9755), "0.9755");
  assert.equal(threshold(0.9999546), "0.999954");
  assert.equal(threshold(0.9999992), "0.9999992");
  assert.equal(threshold(0.00012345), "0.00012");
  assert.deepEqual([0, 1, 1.01, 1.00001, -1].map(threshold), ["0.00", "1.00", "1.01", "1.00", "-1.00"]);
});

test("a reading that has reached a threshold is never shown below it, however close to 1 that is", () => {
  for (let tenths = 30; tenths <= 140; tenths += 1) {
    const reached = 1 / (1 + Math.exp(-tenths / 10));
    assert.notEqual(threshold(reached), "1.00");
    for (let part = 0; part <= 100; part += 1) {
      const reading = Math.min(1, reached + ((1 - reached) * part) / 100);
      const shown = confidence(reading, decimalsOf([reached]));
      assert.ok(Number(shown) >= Number(threshold(reached)), `${shown} beside ${threshold(reached)}`);
    }
  }
});

test("a reading has the decimals of the thresholds beside it, so that its side is seen", () => {
  assert.equal(decimalsOf([0.4, 0.75]), 2);
  assert.equal(decimalsOf([0.4, 0.9839, 0]), 4);
  assert.equal(decimalsOf([0.06749999999999999]), 4);
  assert.equal(decimalsOf([]), 2);
  assert.equal(confidence(0.985, decimalsOf([0.9839])), "0.9850");
  assert.equal(confidence(0.98389, decimalsOf([0.9839])), "0.9838");
});

test("a reading that missed a threshold is not written like it", () => {
  assert.deepEqual(beside(0.64, 0.65), ["0.64", "0.65"]);
  assert.deepEqual(beside(0.65001, 0.65004), ["0.65001", "0.65004"]);
  assert.deepEqual(beside(0.90021, 0.900249511, 4), ["0.90021", "0.90024"]);
  assert.deepEqual(beside(0.90021, 0.900249511), ["0.90", "0.9002"]);
  assert.deepEqual(beside(0.7, 0.65, 4), ["0.7000", "0.65"]);
  assert.deepEqual(beside(0.65, 0.65), ["0.65", "0.65"]);
  assert.deepEqual(beside(0.6499999999, 0.65), ["0.64", "0.65"]);
});

test("a share that was chosen is written as it was chosen, and as statements write it", () => {
  assert.deepEqual([0.12344, 0.07, 0.3, 0.0333333333, 1 / 12].map(percent), ["12.344%", "7%", "30%", "3.33333%", "8.33333%"]);
  assert.deepEqual([0.9999999, 1 - 1e-16, 1].map(percent), ["99.99999%", "99.99999999999999%", "100%"]);
});

test("the probability that a calibration failed is rounded up, and what it leaves down", () => {
  assert.deepEqual([0.1, 0.1 / 12, 0.05, 0.0001, 0].map(atMost), ["10%", "0.834%", "5%", "0.01%", "0%"]);
  assert.deepEqual([0.1, 0.1 / 12, 0.05, 0.0001, 0].map(allBut), ["90%", "99.166%", "95%", "99.99%", "100%"]);
});

test("a frequency is neither none nor less than the risk", () => {
  assert.deepEqual([0.00003, 0.12344, 0.0123456, 0.95, 2e-11].map(frequency), ["3 of 100,000", "124 of 1,000", "124 of 10,000", "95 of 100", "1 of 50,000,000,000"]);
  for (let share = 0.0001; share < 1; share += 0.000937) {
    const [of, base] = frequency(share).replaceAll(",", "").split(" of ").map(Number);
    assert.ok(of / base >= share - 1e-9 && of / base < 1.01 * share, frequency(share));
  }
});

test("a risk is a frequency", () => {
  assert.equal(frequency(0.1), "1 of 10");
  assert.equal(frequency(0.05), "1 of 20");
  assert.equal(frequency(0.3), "3 of 10");
  assert.equal(frequency(0.07), "7 of 100");
  assert.equal(frequency(0.001), "1 of 1,000");
});

test("numbers have units, and nouns their number", () => {
  assert.equal(count(1, "token"), "1\u00a0token");
  assert.equal(count(1812.3, "token"), "1,812\u00a0tokens");
  assert.equal(duration(0.84), "840\u00a0ms");
  assert.equal(duration(75), "1\u00a0min 15\u00a0s");
  assert.equal(duration(7300), "2\u00a0h 1\u00a0min");
  assert.equal(list(["a", "b", "c"]), "a, b and c");
  assert.equal(list([]), "");
});

test("what the service says is a sentence, and what is one already stays as it is", () => {
  assert.equal(sentence("the queue is full (8 wait)"), "The queue is full (8 wait).");
  assert.equal(sentence("Ask at one of them:"), "Ask at one of them:");
  assert.equal(sentence("Enough."), "Enough.");
  assert.equal(sentence(""), "");
});

test("the failures that a probability allows are never told too few", () => {
  assert.equal(mostOf(0.1, 20), "at most about 2 of 20");
  assert.equal(mostOf(0.05, 20), "at most about 1 of 20");
  assert.equal(mostOf(0.06, 20), "at most about 2 of 20");
  for (const delta of [0.001, 0.01, 0.049]) assert.equal(mostOf(delta, 20), "fewer than 1 of 20");
  assert.equal(mostOf(0.004, 100), "fewer than 1 of 100");
});

test("the hour after midnight is the first of its day", () => {
  assert.equal(clock(new Date(2026, 0, 12, 0, 5, 7)), "00:05:07");
  assert.equal(clock(new Date(2026, 0, 12, 23, 59, 59)), "23:59:59");
});

test("a bound is rounded up, and one that needs no rounding stays", () => {
  assert.deepEqual([0.194471, 0.4, 0.07, 0.011, 0.0098339, 1, 0].map(atMost), ["19.5%", "40%", "7%", "1.1%", "0.984%", "100%", "0%"]);
});
