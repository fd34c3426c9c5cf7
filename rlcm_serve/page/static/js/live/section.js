/** The promise, live, as four questions: is it kept now, why or why not, what changed, and what to do. */

import { Problem } from "../api.js";
import { h, renew, replace, setText } from "../dom.js";
import { percent, sentence } from "../format.js";
import { driftSection } from "./drift.js";
import { eventDays } from "./events.js";
import { intervalsHold, labelOf, overall } from "./figures.js";
import { certificateCards } from "./kept.js";
import { recalibrations } from "./recalibration.js";
import { LISTED, recentAnswers, traceOf } from "./recent.js";
import { lost, steps } from "./todo.js";
import { reasons } from "./why.js";

/** @typedef {import("./figures.js").Monitoring} Monitoring */
/** @typedef {import("../operate/overview.js").Job} Job */

const EVERY_MS = 20_000;
const PATIENCE_MS = 10_000;
const WAIT = "Wait: the page asks again every 20 seconds. If it lasts, look at the service’s log.";

/**
 * The four sections, and below them what their answers rest on; `beside` is what the view adds to that.
 *
 * @param {import("../api.js").Api} api
 * @param {{ drift: HTMLElement, answers: HTMLElement }} beside
 * @param {() => void} onStarted a job
 * @returns {{ questions: HTMLElement[], details: HTMLElement[], look: (mayRead: boolean, titles: Map<string, string>, mayAdminister: boolean, jobs: Job[]) => void }}
 *   `look` asks the service, at most every 20 seconds; `jobs` are the latest ones
 */
export function liveSections(api, beside, onStarted) {
  const verdict = h("p", { class: "verdict", role: "status" });
  const note = h("p", { class: "muted" });
  const why = h("div");
  const events = h("div");
  const todo = h("div");
  const again = recalibrations(api, onStarted);
  const audit = h("p", { class: "muted" });
  const cards = h("div", { class: "live-certificates" });
  const drift = h("div");
  const listNote = h("p", { class: "muted" });
  const recent = h("div");
  const trace = traceOf(api);
  const risks = section("detail risks", "The live risk of each level", audit, cards);
  const questions = [
    section("question kept", "Is the promise kept now?", verdict, note),
    section("question why", "Why, or why not?", why),
    section("question changed", "What changed?", events),
    section("question todo", "What do I do?", todo, again.element),
  ];
  const details = [
    risks,
    section("detail drifts", "Questions, compared with the calibration", drift, beside.drift),
    section("detail answers", "The latest answers", listNote, recent, beside.answers),
  ];
  /** @type {import("../charts.js").Chart[]} */
  let charts = [];
  let shape = "";
  let latest = "";
  let due = 0;

  /** @param {Monitoring} body @param {Map<string, string>} titles @param {boolean} mayAdminister */
  function show(body, titles, mayAdminister) {
    const { mark, kind, words } = overall(body);
    verdict.className = `verdict ${kind}`;
    setText(verdict, `${mark} ${words}`);
    setText(note, "");
    setText(audit, `${percent(body.audit.share)} of all answers are drawn at random for a label. ${intervalsHold(body)}`);
    risks.hidden = false;
    again.update(mayAdminister ? lost(body) : []);
    const wanted = steps(body); // they depend on the time too
    if (!todo.firstChild?.isEqualNode(wanted)) renew(todo, () => replace(todo, wanted));
    const next = JSON.stringify([body.certificates, body.events, body.audit, ...titles]);
    if (next === shape) return;
    shape = next;
    renew(cards, () => {
      charts.forEach((one) => one.destroy());
      const { elements, draw } = certificateCards(body, titles);
      replace(cards, elements);
      charts = draw();
    });
    renew(drift, () => replace(drift, driftSection(body.certificates)));
    renew(why, () => replace(why, reasons(body, titles.size)));
    renew(events, () => replace(events, eventDays(body.events)));
  }

  /**
   * @param {string} cause why there are no figures
   * @param {string} remedy
   */
  function none(cause, remedy) {
    shape = latest = "";
    verdict.className = "verdict";
    setText(verdict, "○ Not known.");
    setText(note, "");
    setText(listNote, "");
    replace(why, h("p", null, cause));
    replace(events, h("p", { class: "muted" }, "Not known either."));
    replace(todo, h("p", null, remedy));
    for (const part of [cards, drift, recent]) replace(part);
    again.update([]);
    risks.hidden = true;
    charts.forEach((one) => one.destroy());
    charts = [];
  }

  async function list() {
    try {
      const { answers } = await api.get(`answers?limit=${LISTED}`, undefined, PATIENCE_MS);
      setText(listNote, "");
      const next = JSON.stringify([answers, answers.map((/** @type {import("./recent.js").Answer} */ one) => labelOf(one))]);
      if (next === latest || recent.contains(document.activeElement)) return; // somebody reads in it
      replace(recent, recentAnswers(answers, trace));
      latest = next;
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setText(listNote, `${latest ? "This list is old; the latest answers" : "The latest answers"} could not be loaded: ${sentence(error.detail)}`);
    }
  }

  return {
    questions,
    details,
    async look(mayRead, titles, mayAdminister, jobs) {
      again.follow(jobs);
      if (!mayRead) return none("This key may not read metrics, so the page cannot show whether the promise is kept.", "Use a key with the scope “metrics”, or ask the operator of the service.");
      if (Date.now() < due) return;
      due = Date.now() + EVERY_MS;
      try {
        const body = /** @type {Monitoring} */ (await api.get("monitoring", undefined, PATIENCE_MS));
        if (!body.certificates_known) return none("The engine is starting, so it is not known yet which certificates are active.", WAIT);
        show(body, titles, mayAdminister);
        await list();
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        if (error.status === 404) none("Monitoring is off (the setting “monitor”), so nothing checks whether the promise is kept.", "Start the service with monitoring, and label the answers that it draws.");
        else if (shape) setText(note, `These figures are old; the latest could not be loaded: ${sentence(error.detail)}`);
        else none(sentence(error.detail), WAIT);
      }
    },
  };
}

/**
 * @param {string} name
 * @param {string} title
 * @param {...Node} children
 */
function section(name, title, ...children) {
  return h("section", { class: name }, h("h2", null, title), children);
}
