/** What changed? The events, day by day. */

import { h } from "../dom.js";
import { clock, percent } from "../format.js";
import { runbook } from "./runbooks.js";
import { withAlpha } from "./figures.js";

/** @typedef {import("./figures.js").Event} Event */

/** @type {Record<string, { mark: string, name: string }>} */
const WHAT = {
  risk_alarm: { mark: "✕", name: "Risk alarm" },
  drift_alarm: { mark: "▲", name: "Drift alarm" },
  withdrawn: { mark: "✕", name: "Guarantee withdrawn" },
  restored: { mark: "○", name: "Early stopping restored, without a guarantee" },
};

/** @type {Record<string, string>} */
const ACTIONS = { withdraw: "The guarantee was withdrawn.", "smaller-level": "The guarantee was withdrawn; smaller levels stop early without it.", warn: "Nothing else was done.", none: "Nothing was done." };
/** What somebody did, and no alarm. Its text says who. */
const BY_HAND = "restored";

/** @type {Record<string, string>} */
const HOOKS = { waiting: "The webhook has not received it yet.", delivered: "The webhook has received it.", failed: "The webhook could not be reached." };

/** @type {Record<string, string>} */
const RUNBOOKS = { risk_alarm: "RlcmRiskAlarm", withdrawn: "RlcmGuaranteeWithdrawn", drift_alarm: "RlcmDriftAlarm" };

/**
 * @param {Event[]} events the newest first
 * @returns {HTMLElement[]}
 */
export function eventDays(events) {
  if (!events.length) return [h("p", { class: "muted" }, "No alarm has been raised, and no guarantee was withdrawn.")];
  /** @type {Map<string, Event[]>} */
  const days = new Map();
  for (const event of events) {
    const day = new Date(event.time).toLocaleDateString("en", { weekday: "short", day: "numeric", month: "short", year: "numeric" });
    days.set(day, [...(days.get(day) ?? []), event]);
  }
  return [...days].map(([day, these]) => h("div", { class: "event-day" }, h("h3", null, day), h("ul", { class: "live-events" }, these.map(eventItem))));
}

/** @param {Event} event */
function eventItem({ time, certificate, alpha, what, text, action, hook, runbook: address }) {
  const { mark, name } = WHAT[what] ?? { mark: "•", name: what };
  const level = alpha === null ? "" : ` at α = ${percent(alpha)}`;
  const detail = text.includes(": ") ? `: ${withAlpha(text.slice(text.indexOf(": ") + 2))}` : what === BY_HAND ? `: ${text}` : "";
  const known = RUNBOOKS[what];
  return h(
    "li",
    null,
    h("time", { datetime: time }, clock(new Date(time))),
    " ",
    h("b", null, h("span", { "aria-hidden": "true" }, `${mark} `), `${name}${level}`),
    `${detail}. `,
    h("span", { class: "muted" }, "Certificate ", h("code", null, certificate), ". ", [what === BY_HAND ? "" : ACTIONS[action], HOOKS[hook]].filter(Boolean).join(" "), " ", known && runbook(known, address)),
  );
}
