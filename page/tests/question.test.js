import assert from "node:assert/strict";
import { test } from "node:test";

import { alphaNote } from "../../rlcm_serve/page/static/js/ask/form.js";
import { certificateFor, certificateOf, certifiedSamples, isGiven, kindsFor, servedLevel, usualTokens } from "../../rlcm_serve/page/static/js/ask/levels.js";
import { DEFAULTS, fragmentOf, questionOf, requestOf } from "../../rlcm_serve/page/static/js/ask/question.js";
import { parseFragment, writeFragment } from "../../rlcm_serve/page/static/js/fragment.js";

test("a question comes back from its fragment as it was", () => {
  const question = { problem: "a & b? #ü 100%\nsecond = line", alpha: 0.05, n: 8, risk: "regret", vote: "majority", kind: "number theory", on_infeasible: "full_budget" };
  const { view, params } = parseFragment(fragmentOf(question));
  assert.equal(view, "ask");
  assert.deepEqual(questionOf(params), question);
});

test("a fragment does not say what goes without saying", () => {
  assert.equal(fragmentOf(DEFAULTS), "#/ask?alpha=0.1&n=4&risk=selective&vote=confidence");
});

test("what a fragment cannot mean is as by default", () => {
  assert.deepEqual(questionOf(new URLSearchParams("alpha=7&n=900&risk=x&vote=y&on_infeasible=z")), DEFAULTS);
  assert.deepEqual(questionOf(new URLSearchParams("risk=toString")), DEFAULTS);
  assert.equal(parseFragment("#/nowhere?x=1").view, "ask");
});

test("several certificates are named in one fragment", () => {
  const written = writeFragment("trust", { id: ["a", "b"], other: null });
  assert.equal(written, "#/trust?id=a&id=b");
  assert.deepEqual(parseFragment(written).params.getAll("id"), ["a", "b"]);
});

const certificate = (procedure, alphas, more = {}) => ({
  id: "c",
  active: true,
  risk: "selective",
  promise: "simultaneous",
  procedure: { vote: "confidence", max_tokens: 960, ...procedure },
  profiles: ["default"],
  levels: [0.05, 0.1, 0.2].map((alpha) => ({ alpha, certified: alphas.includes(alpha) })),
  ...more,
});

test("a certificate serves its own procedure, and of one sample any vote", () => {
  const all = [certificate({ n: 1 }, [0.1]), certificate({ n: 4 }, [0.1]), certificate({ n: 8 }, [0.1], { active: false })];
  assert.equal(certificateFor(all, { risk: "selective", n: 4, vote: "confidence" }), all[1]);
  assert.equal(certificateFor(all, { risk: "selective", n: 4, vote: "majority" }), undefined);
  assert.equal(certificateFor(all, { risk: "selective", n: 1, vote: "majority" }), all[0]);
  assert.equal(certificateFor(all, { risk: "regret", n: 1, vote: "confidence" }), undefined);
  assert.deepEqual(certifiedSamples(all, { risk: "selective", vote: "confidence" }), [1, 4]);
});

test("a certificate for another thinking budget than the page's questions have is for none of them", () => {
  const all = [certificate({ n: 1, max_tokens: 480 }, [0.1]), certificate({ n: 4 }, [0.1], { id: "d" })];
  const asked = { risk: "selective", vote: "confidence" };
  assert.equal(certificateFor(all, { ...asked, n: 1 }, 960), undefined);
  assert.equal(certificateFor(all, { ...asked, n: 4 }, 960), all[1]);
  assert.deepEqual(certifiedSamples(all, asked, 960), [4]);
  assert.deepEqual(certifiedSamples(all, asked, null), [1, 4], "while the engine starts, its budget is not known");
});

test("a certificate of a prompt profile is for none of the page's questions", () => {
  const all = [certificate({ n: 1 }, [0.1], { profiles: ["support"] }), certificate({ n: 1 }, [0.1], { id: "d" })];
  assert.equal(certificateFor(all, { risk: "selective", n: 1, vote: "confidence" }), all[1]);
  assert.deepEqual(certifiedSamples(all.slice(0, 1), { risk: "selective", vote: "confidence" }), []);
});

test("a question of a kind is under the certificate of this kind, or else of all kinds", () => {
  const kinds = { certified: ["algebra"], pooled: ["poetry"] };
  const [all, algebra] = [null, "algebra"].map((name) => certificate({ n: 1 }, [0.1], { kind: { name, ...kinds } }));
  const asked = { risk: "selective", n: 1, vote: "confidence" };
  const found = ["", "algebra", "poetry"].map((kind) => certificateFor([algebra, all], { ...asked, kind }));
  assert.deepEqual(found, [all, algebra, all]);
  assert.equal(certificateFor([algebra], { ...asked, kind: "" }), undefined);
  assert.deepEqual(certifiedSamples([algebra], { ...asked, kind: "algebra" }), [1]);
  assert.deepEqual(certifiedSamples([algebra], { ...asked, kind: "" }), []);
});

test("kinds can be chosen where an active certificate tells them apart", () => {
  const kind = { name: null, certified: ["logic", "algebra"], pooled: ["poetry"] };
  assert.deepEqual(kindsFor([certificate({ n: 1 }, [0.1], { kind })], "selective"), ["algebra", "logic", "poetry"]);
  assert.deepEqual(kindsFor([certificate({ n: 1 }, [0.1], { kind })], "regret"), []);
  assert.deepEqual(kindsFor([certificate({ n: 1 }, [0.1], { kind, active: false }), certificate({ n: 1 }, [0.1])], "selective"), []);
});

test("a kind is sent only if one is chosen", () => {
  assert.equal("kind" in requestOf(DEFAULTS), false);
  assert.equal(requestOf({ ...DEFAULTS, kind: "algebra" }).kind, "algebra");
});

test("what an answer is promised under is found by its name, in force or not", () => {
  const levels = [{ alpha: 0.1, certified: true, full_budget_tokens: 1800 }];
  const all = [certificate({ n: 4 }, [0.1]), certificate({ n: 4 }, [0.1], { id: "d", active: false, levels })];
  assert.equal(certificateOf(all, { certificate: "d" }), all[1]);
  assert.equal(certificateOf(all, { certificate: "e" }), undefined);
  assert.equal(certificateOf(all, null), undefined);
  assert.equal(usualTokens(all, { samples: 4, guarantee: { certificate: "d" } }), 450);
  assert.equal(usualTokens(all, { samples: 4, guarantee: null }), null);
});

test("a request is served at the largest certified level that is not above it", () => {
  const one = certificate({ n: 1 }, [0.05, 0.2]);
  assert.equal(servedLevel(one, 0.3)?.alpha, 0.2);
  assert.equal(servedLevel(one, 0.15)?.alpha, 0.05);
  assert.equal(servedLevel(one, 0.01), undefined);
});

test("a pointwise promise does not fall through to another level", () => {
  const one = certificate({ n: 1 }, [0.05, 0.2], { promise: "pointwise" });
  assert.equal(servedLevel(one, 0.15), undefined);
  assert.equal(servedLevel(one, 0.2)?.alpha, 0.2);
});

test("what was withdrawn, or the engine voids, is marked as certified nowhere", () => {
  const asked = { risk: "selective", vote: "confidence" };
  for (const why of [{ withdrawn: "risk alarm" }, { voided: "dtype is float16" }]) {
    const all = [certificate({ n: 1 }, [0.1], why), certificate({ n: 4 }, [0.1], { id: "d" })];
    assert.equal(certificateFor(all, { ...asked, n: 1 }), all[0], "it says why nothing is promised");
    assert.deepEqual(certifiedSamples(all, asked), [4]);
    assert.deepEqual(all.map(isGiven), [false, true]);
  }
  assert.equal(isGiven(undefined), false);
});

test("the form says on what a promise depends, and why settings have none", () => {
  const asked = { ...DEFAULTS, n: 1 };
  assert.match(alphaNote(asked, certificate({ n: 1 }, [0.1])), /^The promise: at most 1 of 10/);
  assert.match(alphaNote(asked, certificate({ n: 1 }, [0.1], { promise: "pointwise" })), /^The promise, if you chose α before you saw any result: at most/);
  assert.match(alphaNote(asked, undefined), /^These settings are not certified/);
  assert.match(alphaNote(asked, certificate({ n: 1 }, [0.1], { voided: "dtype is float16" })), /^This engine does not give the promise for these settings/);
  assert.match(alphaNote(asked, certificate({ n: 1 }, [0.1], { withdrawn: "risk alarm" })), /withdrawn after an alarm/);
});
