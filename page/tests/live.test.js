import assert from "node:assert/strict";
import { test } from "node:test";
import { beforeNow, labelOf, overall } from "../../rlcm_serve/page/static/js/live/figures.js";
import { lost } from "../../rlcm_serve/page/static/js/live/todo.js";
import { hasEnded, jobWords } from "../../rlcm_serve/page/static/js/operate/jobs.js";

const NOW = "2026-01-12T09:30:00Z";
const ago = (minutes) => ({ time: new Date(Date.parse(NOW) - 60_000 * minutes).toISOString() });

test("times before now are in a unit of which they span two", () => {
  assert.deepEqual(beforeNow([ago(20), ago(5)], NOW), { unit: "minutes", x: [-20, -5] });
  assert.deepEqual(beforeNow([ago(240), ago(60)], NOW), { unit: "hours", x: [-4, -1] });
  assert.deepEqual(beforeNow([ago(2 * 1440), ago(720)], NOW), { unit: "days", x: [-2, -0.5] });
});

test("a withdrawn certificate that was replaced is no longer a matter", () => {
  const one = (id, active, guarantee) => ({ id, active, guarantee, levels: [] });
  const body = { certificates: [one("new", true, "given"), one("old", false, "withdrawn")] };
  assert.deepEqual(lost(body), []);
  assert.equal(overall(body).kind, "");
  body.certificates.push(one("other", true, "withdrawn"), one("third", true, "restored"));
  assert.deepEqual(lost(body), ["other", "third"], "restored policies bring no guarantee back");
  assert.match(overall(body).words, /^No: 2.certificates have given no guarantee/);
});

test("a certificate that the engine voids gives no guarantee, and is not to be calibrated again", () => {
  const body = { behind_s: 1, certificates: [{ id: "c", active: true, guarantee: "void", levels: [level(0.1, below)] }] };
  assert.deepEqual([overall(body).kind, overall(body).words], ["bad", "No: a certificate gives no guarantee on this engine."]);
  assert.deepEqual(lost(body), []);
});

const level = (alpha, test, questions = 9) => ({ alpha, questions, test: test && { alarmed: false, risk: 0.05, low: 0, high: 0.5, ...test } });
const watched = (levels, more = {}) => overall({ behind_s: 1, certificates: [{ id: "c", active: true, guarantee: "given", levels }], ...more });
const below = { high: 0.09 };

test("the promise is kept only if labels say so at every level that was asked for", () => {
  assert.deepEqual([watched([level(0.1, below)]).kind, watched([level(0.1, below)]).words], ["good", "Yes, as far as labels tell."]);
  assert.equal(watched([level(0.1, below), level(0.2, null, 0), level(0.3, { risk: null }, 0)]).kind, "good");
  for (const [other, words] of [
    [level(0.2, {}), /^No sign that it is broken; at 1 of 2.levels too few labels/],
    [level(0.2, { risk: null }), /^No sign that it is broken; at 1 of 2.levels no label yet/],
    [level(0.2, null), /^No sign that it is broken; at 1 of 2.levels labels cannot test it/],
  ]) {
    const told = watched([level(0.1, below), other]);
    assert.equal(told.kind, "");
    assert.match(told.words, words);
  }
  assert.equal(watched([level(0.1, {})]).words, "No sign that it is broken; too few labels to be sure yet.");
});

test("a risk above its target is said before any alarm", () => {
  const told = watched([level(0.1, below), level(0.2, { risk: 0.4, low: 0.3 })]);
  assert.deepEqual([told.kind, told.words.replace(/\u00a0/g, " ")], ["bad", "Perhaps not: at 1 of 2 levels labels put the risk above its target, without an alarm yet."]);
});

test("without labels, tests or a look at them it is not known", () => {
  assert.match(watched([level(0.1, { risk: null })]).words, /^Not known: no answer under a guarantee has a label yet/);
  assert.match(watched([level(0.1, null)]).words, /^Not known: labels cannot test/);
  assert.match(watched([]).words, /^Not known: no answer/);
  assert.match(watched([level(0.1, below)], { behind_s: 400 }).words, /^Not known: no process has looked at new answers for 6.min/);
  assert.match(watched([level(0.1, { alarmed: true })], { behind_s: 400 }).words, /^No: /);
});

test("a job is told in a line", () => {
  const job = { id: "cal_1", state: "recording", done: 12, total: 40, error: null };
  assert.equal(jobWords(job), "◐ Job cal_1: recording, 12 of 40 rollouts recorded");
  const failed = { ...job, state: "failed", error: "too few labels: 3" };
  assert.equal(jobWords(failed), "✕ Job cal_1: failed. Too few labels: 3.");
  assert.deepEqual([hasEnded(job), hasEnded(failed)], [false, true]);
});

test("a label is awaited only while it can still count", () => {
  const one = { outcome: "answered", audit: true, label: null, due: NOW };
  const due = Date.parse(NOW);
  assert.deepEqual([labelOf(one, due - 1), labelOf(one, due)], ["○ awaited", "– too late"]);
  assert.equal(labelOf({ ...one, label: "wrong" }, due), "✕ wrong");
  assert.equal(labelOf({ ...one, audit: false }, due - 1), "–");
  assert.equal(labelOf({ ...one, outcome: "abstained" }, due - 1), "–");
});
