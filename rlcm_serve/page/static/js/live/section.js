/** Live monitoring: the promise of each certificate, held against labels and against calibration. */

import { Problem } from "../api.js";
import { h, replace, setText } from "../dom.js";
import { count, percent } from "../format.js";
import { writeFragment } from "../fragment.js";
import { timeOf } from "../operate/job-log.js";
import { riskWording } from "../trust/wording.js";
import { ACTIONS, GUARANTEES, HOOKS, RUNBOOKS, declinedWords, labelWords, riskWords, stateWords } from "./figures.js";
import { driftTable, riskChart } from "./level.js";

/** @typedef {import("./figures.js").Monitoring} Monitoring */
/** @typedef {import("./figures.js").Monitored} Monitored */

const EVERY_MS = 20_000;
const PATIENCE_MS = 10_000;

/**
 * @param {import("../api.js").Api} api
 * @returns {{ element: HTMLElement, look: (mayRead: boolean) => void }} `look` asks the service, at most every 20 seconds
 */
export function liveSection(api) {
  const words = h("p", { class: "muted" });
  const root = h("div", { class: "live-certificates" });
  const events = h("div");
  const element = h(
    "section",
    { class: "live-section", hidden: true },
    h("h2", null, "Live monitoring"),
    h("p", { class: "term" }, "Whether each promise is being kept, by labels of answers drawn at random. The interval beside the live risk is a confidence sequence: it holds at all times at once. Drift needs no labels; it says that questions or readings are no longer as in calibration."),
    words,
    root,
    events,
  );
  /** @type {import("../charts.js").Chart[]} */
  let charts = [];
  let shape = "";
  let due = 0;
  let off = false;

  /** @param {Monitoring} body */
  function show(body) {
    element.hidden = false;
    setText(words, auditWords(body));
    const next = JSON.stringify([body.certificates, body.events]);
    if (next === shape) return;
    shape = next;
    charts.forEach((one) => one.destroy());
    const shown = body.certificates.map((one) => certificateCard(one, body.time));
    replace(root, shown.map(({ element: card }) => card));
    charts = shown.flatMap(({ draw }) => draw());
    replace(events, eventList(body.events));
  }

  return {
    element,
    async look(mayRead) {
      if (!mayRead || off || Date.now() < due) return;
      due = Date.now() + EVERY_MS;
      try {
        show(/** @type {Monitoring} */ (await api.get("monitoring", undefined, PATIENCE_MS)));
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        off = error.status === 404; // monitoring is turned off
        if (!off && !element.hidden) setText(words, `These figures are old; the latest could not be loaded: ${error.detail}`);
      }
    },
  };
}

/** @param {Monitoring} body */
function auditWords({ audit, behind_s: behind, certificates }) {
  const waits = audit.waiting ? `${count(audit.waiting, "answer")} wait for a label${audit.oldest ? `, the oldest since ${timeOf(audit.oldest)}` : ""}.` : "No answer waits for a label.";
  const late = behind !== null && behind > 300 ? " No process has tested new answers for five minutes." : "";
  const none = certificates.length ? "" : " No question has been answered under a guarantee yet.";
  return `${percent(audit.share)} of answers are drawn for audit. ${waits}${late}${none}`;
}

/**
 * @param {Monitored} certificate
 * @param {string} now
 */
function certificateCard({ id, risk, active, guarantee, why, since, levels }, now) {
  const state = GUARANTEES[guarantee] ?? { mark: "?", word: guarantee, tag: "tag" };
  const charts = levels.map((level) => riskChart(level, now)).filter((one) => one !== null);
  const head = ["Target", "Certified bound", "Live risk", "Labels", "Declined", "State"];
  const element = h(
    "article",
    { class: "card" },
    h(
      "div",
      { class: "row" },
      h("h3", null, h("a", { href: writeFragment("trust", { id }) }, riskWording(risk).title), " ", h("code", null, id)),
      h("span", { class: state.tag }, `${state.mark} ${state.word}`),
      active ? null : h("span", { class: "tag" }, "not active"),
    ),
    why === null ? null : h("p", null, `${why}${since ? `, since ${timeOf(since)}` : ""}.`),
    h(
      "div",
      { class: "scrolls", tabindex: "0", role: "group", "aria-label": `Levels of ${id}` },
      h(
        "table",
        null,
        h("thead", null, h("tr", null, head.map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", null, levels.map(levelRow)),
      ),
    ),
    charts.map((one) => one.element),
    h("details", null, h("summary", null, "Drift"), levels.map(driftTable)),
  );
  return { element, draw: () => charts.map((one) => one.draw()) };
}

/** @param {import("./figures.js").Level} level */
function levelRow(level) {
  const cells = [level.risk_upper === null ? "–" : percent(level.risk_upper), riskWords(level), labelWords(level), declinedWords(level), stateWords(level)];
  return h("tr", null, h("th", { scope: "row" }, `α ${percent(level.alpha)}`), cells.map((text) => h("td", null, text)));
}

/** @param {import("./figures.js").Event[]} events */
function eventList(events) {
  if (events.length === 0) return null;
  return [
    h("h3", null, "Events"),
    h(
      "ul",
      { class: "live-events" },
      events.map(({ time, certificate, text, action, hook, what }) =>
        h(
          "li",
          null,
          h("time", { datetime: time }, timeOf(time)),
          " ",
          h("code", null, certificate),
          ` ${text}. `,
          h("span", { class: "muted" }, [ACTIONS[action], HOOKS[hook], RUNBOOKS[what] && `runbook ${RUNBOOKS[what]}`].filter(Boolean).join("; ")),
        ),
      ),
    ),
  ];
}
