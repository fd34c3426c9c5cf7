import assert from "node:assert/strict";
import { test } from "node:test";
import { beforeNow, overall } from "../../rlcm_serve/page/static/js/live/figures.js";
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
  assert.deepEqual(lost(body), ["other"]);
  assert.match(overall(body).words, /^No: 2.certificates have given no guarantee/);
});

test("a job is told in a line", () => {
  const job = { id: "cal_1", state: "recording", done: 12, total: 40, error: null };
  assert.equal(jobWords(job), "◐ Job cal_1: recording, 12 of 40 rollouts recorded");
  const failed = { ...job, state: "failed", error: "too few labels: 3" };
  assert.equal(jobWords(failed), "✕ Job cal_1: failed. Too few labels: 3.");
  assert.deepEqual([hasEnded(job), hasEnded(failed)], [false, true]);
});
