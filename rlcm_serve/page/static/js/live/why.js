/** Why, or why not? What the verdict on the promise rests on, in a few lines. */

import { h } from "../dom.js";
import { count, list, number } from "../format.js";
import { writeFragment } from "../fragment.js";
import { timeOf } from "../operate/job-log.js";
import { driftWords } from "./drift.js";
import { GUARANTEES, statusOf, withAlpha } from "./figures.js";
import { runbook } from "./runbooks.js";

/** @typedef {import("./figures.js").Monitoring} Monitoring */

/** Certificates that are named. */
const NAMED = 2;
/** What is said of levels with this status, the most urgent first. */
const FOUND = {
  alarm: "at {} the labels show a risk above the target",
  above: "at {} the live risk is above the target, without an alarm yet",
  unclear: "at {} there are too few labels to tell",
  below: "at {} the risk is below the target",
  unlabelled: "{} no label yet",
  untestable: "{} no test that labels can make",
};

/**
 * @param {Monitoring} body
 * @param {number} active number of active certificates, watched or not
 * @returns {HTMLElement}
 */
export function reasons({ certificates }, active) {
  return h("ul", { class: "reasons" }, lost(certificates), h("li", null, labelled(certificates, active)), expired(certificates), h("li", null, driftWords(certificates)));
}

/** @param {Monitoring["certificates"]} certificates */
function lost(certificates) {
  const all = certificates.filter(({ active, guarantee }) => active && guarantee !== "given");
  const more = all.length > NAMED && h("li", null, `${count(all.length - NAMED, "more certificate")} below.`);
  const named = all
    .slice(0, NAMED)
    .map(({ id, guarantee, why, since }) => {
      const state = GUARANTEES[guarantee] ?? { mark: "?", word: guarantee };
      const reason = why === null ? "" : `: ${withAlpha(why)}${since ? `, on ${timeOf(since)}` : ""}`;
      return h("li", null, h("b", null, `${state.mark} `, h("a", { href: writeFragment("trust", { id }) }, h("code", null, id)), ` ${state.word}`), `${reason}.`);
    });
  return [...named, more];
}

/** @param {Monitoring["certificates"]} certificates @param {number} known */
function labelled(certificates, known) {
  const active = certificates.filter((one) => one.active);
  const levels = active.flatMap((one) => one.levels);
  if (!levels.length && known) return "Monitoring has not looked at the active certificates yet.";
  if (!levels.length) return "No certificate is active, so nothing is promised.";
  const said = Object.entries(FOUND).flatMap(([status, words]) => {
    const found = levels.filter((level) => statusOf(level) === status).length;
    if (!found) return [];
    const many = status === "unlabelled" || status === "untestable" ? `${number(found)} ${found === 1 ? "has" : "have"}` : number(found);
    return [words.replace("{}", many)];
  });
  return `Labels: of ${count(levels.length, "level")} of ${count(active.length, "active certificate")}, ${list(said)}.`;
}

/** Labels that can no longer come: nothing is left to do about them. @param {Monitoring["certificates"]} certificates */
function expired(certificates) {
  const levels = certificates.filter(({ active }) => active).flatMap((one) => one.levels);
  const late = levels.reduce((sum, level) => sum + level.labels.expired, 0);
  return late > 0 && h("li", null, `${count(late, "label")} came too late or not at all. Each counts as right, so a rise of the risk is found later. `, runbook("RlcmLabelsExpire"));
}
