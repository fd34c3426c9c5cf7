/** Operate: four questions about the promise, then how the service runs, while somebody looks. */

import { h, replace, setText } from "../dom.js";
import { rehearsalsSection } from "../live/rehearsals.js";
import { liveSections } from "../live/section.js";
import { confidenceSection } from "./confidence.js";
import { activeSection, titlesOf } from "./active-certificates.js";
import { jobsSection } from "./jobs.js";
import { nowSection } from "./now.js";
import { createHistory, whoseWords } from "./overview.js";
import { createPoller } from "./poll.js";
import { status } from "./service-state.js";
import { exitsSection, questionsSection, tokensSection } from "./totals.js";

/** @typedef {import("./overview.js").Overview} Overview */

const PATIENCE_MS = 10_000;

/**
 * @param {HTMLElement} root
 * @param {import("../main.js").App} app
 * @returns {import("../main.js").View}
 */
export function mount(root, app) {
  const head = status({ onPause: () => (paused ? resume() : pause()), onRetry: (problem) => app.retry(problem, resume) });
  const loading = h("div", { class: "loading", role: "status" }, h("p", null, "Loading the service’s state…"), h("div", { class: "bone" }), h("div", { class: "bone tall" }));
  const whose = h("p", { class: "notice", hidden: true });
  const now = nowSection();
  const tokens = tokensSection();
  const exits = exitsSection();
  const questions = questionsSection();
  const confidence = confidenceSection();
  const active = activeSection();
  const jobs = jobsSection(app.api);
  const live = liveSections(app.api, { drift: confidence.element, answers: jobs.element }, () => resume());
  const rehearsals = rehearsalsSection(app.api, () => resume());
  const figures = h(
    "div",
    { class: "figures", hidden: true },
    live.questions,
    live.details,
    h("section", { class: "question runs" }, h("h2", null, "How does it run?"), now.element),
    h("div", { class: "column" }, questions.element, tokens.element),
    h("div", { class: "column" }, exits.element),
    rehearsals.element,
    active.element,
  );
  replace(root, h("h1", null, "The service, live"), head.element, loading, whose, figures);

  const history = createHistory();
  /** @type {Date | null} */
  let from = null;
  let paused = false;
  let retryAt = 0;
  let clock = 0;

  const poller = createPoller({
    ask: (signal) => /** @type {Promise<Overview>} */ (app.api.get("overview", signal, PATIENCE_MS)),
    onData(overview) {
      from = new Date();
      retryAt = 0;
      loading.hidden = true;
      figures.hidden = false;
      history.add(overview);
      head.live(overview);
      setText(whose, whoseWords(overview.figures, history.isOneOfSeveral()));
      whose.hidden = !whose.textContent;
      now.update(overview, history.moments());
      tokens.update(overview, history.rate());
      for (const section of [exits, confidence, questions, jobs, active]) section.update(overview);
      const titles = titlesOf(overview.certificates);
      live.look(overview.figures === "service", titles, overview.may_administer, overview.jobs);
      rehearsals.look(overview.figures === "service", overview.certificates.map(({ id }) => id));
      tick();
    },
    onProblem(problem, waitMs) {
      retryAt = waitMs === null ? 0 : Date.now() + waitMs;
      loading.hidden = true;
      if (waitMs === null) figures.hidden = whose.hidden = true; // what a key was needed for is not shown without it
      head.lost(problem, from !== null);
      if (problem.status === 0) app.engine.check();
      tick();
    },
  });

  function pause() {
    paused = true;
    retryAt = 0;
    poller.stop();
    tick();
  }

  function resume() {
    paused = false;
    retryAt = Date.now();
    poller.start();
    tick();
  }

  function tick() {
    head.from(from, paused);
    head.tick(retryAt ? Math.max(0, Math.ceil((retryAt - Date.now()) / 1000)) : null);
  }

  return {
    show() {
      clearInterval(clock);
      clock = setInterval(tick, 1000);
      if (!paused) poller.start();
    },
    hide() {
      clearInterval(clock);
      poller.stop();
    },
  };
}
