/** What do I do? One step for each thing that is wrong or waits, the most urgent first. */

import { h } from "../dom.js";
import { count, duration } from "../format.js";
import { writeFragment } from "../fragment.js";
import { timeOf } from "../operate/job-log.js";
import { LATE_S, statusOf } from "./figures.js";
import { runbook } from "./runbooks.js";

/** @typedef {import("./figures.js").Monitoring} Monitoring */

/** Certificates that a step names. */
const NAMED = 2;

/**
 * @param {Monitoring} body
 * @returns {HTMLElement}
 */
export function steps(body) {
  const found = [...broken(body), ...drifted(body), ...late(body), ...labels(body), ...untested(body)];
  if (!found.length) return h("p", null, h("b", null, "✓ Nothing."), " There is no alarm, and no answer waits for a label.");
  return h("ol", { class: "steps" }, found.map((children) => h("li", null, children)));
}

/**
 * The active certificates that lost their guarantee by an alarm, also if their policies serve again. One that was
 * replaced needs nothing any more.
 *
 * @param {Monitoring} body
 */
export function lost({ certificates }) {
  return certificates.filter(({ active, guarantee }) => active && (guarantee === "withdrawn" || guarantee === "restored")).map(({ id }) => id);
}

/** @param {Monitoring} body */
function broken(body) {
  const active = body.certificates.filter((one) => one.active);
  const ids = lost(body);
  const withdrawn = active.filter(({ id }) => ids.includes(id));
  const alarmed = active.filter((one) => !withdrawn.includes(one) && one.levels.some(({ test }) => test?.alarmed));
  return [
    ...reading("Get the guarantee back: ", withdrawn, (first, each) => [` Then calibrate again${each}: `, h("code", null, `rlcm recalibrate ${first}`), ". "], runbook("RlcmGuaranteeWithdrawn", withdrawn[0]?.runbook)),
    ...active.filter(({ guarantee }) => guarantee === "void").map(({ id, why }) => [h("b", null, "Start the engine as certified: "), h("code", null, id), ` gives no guarantee here, because ${why}. `, runbook("RlcmCertificateVoid")]),
    ...reading("Look at the alarm: ", alarmed, (_, each) => [` If the risk did rise, calibrate on new problems, and activate the new certificate${each}. `], runbook("RlcmRiskAlarm")),
  ];
}

/**
 * The step that begins with reading the wrong answers of some certificates.
 *
 * @param {string} title
 * @param {Monitoring["certificates"]} certificates
 * @param {(first: string, each: string) => (string | HTMLElement)[]} then what follows, by the id of the first; `each`
 *   says that it is for all of them
 * @param {HTMLElement} where to read more
 */
function reading(title, certificates, then, where) {
  const [first] = certificates;
  if (!first) return [];
  const named = certificates.slice(0, NAMED).flatMap(({ id }, at) => [at ? ", " : "", h("a", { href: writeFragment("trust", { id }) }, h("code", null, id))]);
  const more = certificates.length > NAMED ? ` and ${certificates.length - NAMED} more` : "";
  return [
    [
      h("b", null, title),
      "read the wrong answers of ",
      ...named,
      `${more} first, because labels can be wrong and a new kind of question may have come.`,
      ...then(first.id, certificates.length > 1 ? " for each" : ""),
      where,
    ],
  ];
}

/** @param {Monitoring} body */
function drifted({ certificates }) {
  const moved = certificates.filter(({ active, levels }) => active && levels.some(({ drift }) => drift.some(({ alarmed }) => alarmed)));
  if (!moved.length) return [];
  return [[h("b", null, "Label more answers: "), "questions or readings have changed, and only labels tell whether the risk has. Raise ", h("code", null, "audit_share"), ", and find out who asks new questions. ", runbook("RlcmDriftAlarm")]];
}

/** @param {Monitoring} body */
function late({ behind_s: behind }) {
  if (behind === null || behind <= LATE_S) return [];
  return [[h("b", null, "Find out why no test runs: "), `no process has looked at new answers for ${duration(behind)}. `, runbook("RlcmMonitoringStands")]];
}

/**
 * Levels that were asked for, and that labels alone cannot test.
 *
 * @param {Monitoring} body
 */
function untested({ certificates }) {
  const asked = certificates.filter(({ active, risk, levels }) => active && risk === "regret" && levels.some((level) => level.questions > 0 && statusOf(level) === "untestable"));
  if (!asked.length) return [];
  return [[h("b", null, "Have early exits compared: "), "whether one lost a right answer shows only beside the answer at full budget. Raise ", h("code", null, "shadow_share"), " above 0."]];
}

/** @param {Monitoring} body */
function labels({ audit, certificates }) {
  const levels = certificates.flatMap((one) => one.levels);
  const found = [];
  // Single keys may have shares of their own.
  if (!audit.share && !levels.some((level) => level.labels.audited)) found.push([h("b", null, "Have answers drawn for labels: "), "without labels nothing tests the promise. Raise ", h("code", null, "audit_share"), " above 0."]);
  if (audit.waiting)
    found.push([
      h("b", null, `Label ${count(audit.waiting, "answer")}: `),
      audit.oldest ? `the oldest has waited since ${timeOf(audit.oldest)}, and counts as right if it has no label after ${duration(audit.deadline_s)}. ` : "",
      h("code", null, "rlcm audit"),
      " lists them, ",
      h("code", null, "rlcm feedback"),
      " takes the labels.",
    ]);
  return found;
}
