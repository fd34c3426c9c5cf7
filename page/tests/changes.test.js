import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { changesOf } from "../../rlcm_serve/page/static/js/trust/changes.js";

const SHIPPED = new URL("../../rlcm_serve/models/embedded/certificates/", import.meta.url);

/** A report as the service sends it, as far as the comparison reads it. */
function report(name, changes = {}) {
  const data = JSON.parse(readFileSync(new URL(`reports/${name}.json`, SHIPPED), "utf8"));
  const levels = data.levels.map((level) => {
    const test = { ...level.test, tokens_share: level.test.tokens / level.test.full_budget_tokens };
    return { ...level, certified: true, lambda_high: 0.9, lambda_low: null, test };
  });
  const [risk, n] = name.split("-");
  return { risk, n: Number(n), vote: "confidence", delta: 0.1, promise: "simultaneous", kind: null, fingerprint: { model: "a" }, ...data, levels, ...changes };
}

test("the same certificate twice differs in nothing but is said to be alike", () => {
  const one = report("selective-1");
  const said = changesOf(one, one, 0.1).join(" ");
  assert.match(said, /both have the same stopping rule/);
  assert.match(said, /Both were fitted on the same engine/);
  assert.doesNotMatch(said, /chance|Only|newer/);
});

test("a difference within the intervals is said to be perhaps chance, one beyond them is not", () => {
  const [one, four, eight] = ["selective-1", "selective-4", "selective-8"].map((name) => report(name));
  assert.match(changesOf(four, eight, 0.1).join(" "), /The intervals overlap: the difference may be chance/);
  const tokens = changesOf(one, four, 0.1).find((words) => words.includes("tokens"));
  assert.match(tokens, /B takes 3.4 times the tokens: 150 per question for A, 507 for B\.$/);
});

test("levels, thresholds and engines that differ are named", () => {
  const [one, other] = [report("selective-1"), report("error-1", { fingerprint: { model: "b" } })];
  other.levels[1].lambda_high = 0.8;
  const said = changesOf(one, other, 0.1).join(" ");
  assert.match(said, /They promise different things/);
  assert.match(said, /Only A is certified at α = 1% and 2%/);
  assert.match(said, /A stops and answers at a confidence of 0.90, B stops and answers at a confidence of 0.80/);
  assert.match(said, /Their engines differ in model weights/);
});

test("stopping rules that differ in anything but their thresholds are not said to be alike", () => {
  const [one, other] = [report("selective-1"), report("selective-1")];
  one.levels[1].policy = { lambda_answer: 0, patience: 32, low_rise: 0 };
  other.levels[1].policy = { lambda_answer: 0.6, patience: 256, low_rise: 0.4 };
  const said = changesOf(one, other, one.levels[1].alpha).join(" ");
  assert.match(said, /they differ in how the threshold λ1 rises, how long confidence must stay low and the answer threshold λa\./);
  assert.doesNotMatch(said, /same stopping rule/);
});

test("figures of test problems are compared with none of calibration problems", () => {
  const [one, other] = [report("selective-1"), report("selective-4")];
  for (const level of other.levels) level.test = null;
  const compared = changesOf(one, other, 0.1).filter((words) => /measured risk|tokens:/.test(words));
  assert.ok(compared.length > 0);
  for (const words of compared) assert.match(words, /^At α = 10% on the calibration problems /);
  for (const level of other.levels) level.calibration = null;
  assert.ok(!changesOf(one, other, 0.1).some((words) => words.includes("measured risk")));
});

test("δ is that of the whole calibration, as on the page of one certificate", () => {
  const kind = (delta) => ({ by: "topic", name: null, certified: [], pooled: [], delta });
  const [one, other] = [report("selective-1", { delta: 0.05, kind: kind(0.1) }), report("selective-1", { delta: 0.025, kind: kind(0.1) })];
  assert.doesNotMatch(changesOf(one, other, 0.1).join(" "), /may have failed/);
  const third = report("selective-1", { delta: 0.05, kind: kind(0.1 / 12) });
  assert.match(changesOf(one, third, 0.1).join(" "), /may have failed with probability 10% for A and 0\.834% for B/);
});

test("what the risk averages over, and what else is bounded, are said where they differ", () => {
  const [one, other] = [report("selective-1", { average: "problems", joint: null }), report("selective-1", { average: "groups", joint: { delta: 0.1, bounds: [], next: null } })];
  const said = changesOf(one, other, 0.1).join(" ");
  assert.match(said, /A counts every question equally, B every group of questions\./);
  assert.match(said, /Only B also bounds other shares or counts of questions, at once with its levels\./);
  assert.match(changesOf(other, one, 0.1).join(" "), /A counts every group of questions equally, B every question\. .*Only A also/);
});
