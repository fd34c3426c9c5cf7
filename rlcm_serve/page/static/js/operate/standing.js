/** How things stand: the engine, when the figures are from, and whether they still come. */

import { h, replace, setText } from "../dom.js";
import { duration } from "../format.js";
import { timeOf } from "./job-log.js";

/** @typedef {import("./overview.js").Overview} Overview */
/** @typedef {import("../api.js").Problem} Problem */

/** @type {Record<string, { mark: string, word: string, kind: string }>} */
const ENGINE = {
  ready: { mark: "●", word: "engine ready", kind: "good" },
  starting: { mark: "◐", word: "engine starting", kind: "" },
  restarting: { mark: "◐", word: "engine restarting", kind: "bad" },
  stopping: { mark: "◐", word: "stopping", kind: "" },
  failed: { mark: "✕", word: "engine failed", kind: "bad" },
};

/**
 * @param {object} options
 * @param {() => void} options.onPause the figures are to stand still, or to move again
 * @param {() => void} options.onRetry
 */
export function standing({ onPause, onRetry }) {
  const engine = h("span", { class: "tag", hidden: true });
  const about = h("span", { class: "muted" });
  const updated = h("span", { class: "muted" });
  const pause = h("button", { type: "button", onclick: onPause }, "Pause");
  const note = h("div", { role: "status" });
  const element = h("div", { class: "standing" }, h("div", { class: "row" }, engine, about, h("span", { class: "row end" }, updated, pause)), note);
  let told = "";
  let countdown = h("p");
  pause.hidden = true;

  /**
   * @param {string} key what is said, so that it is said once
   * @param {() => Node[]} make
   */
  function say(key, make) {
    if (key === told) return;
    told = key;
    replace(note, key ? make() : []);
  }

  return {
    element,
    /** @param {Overview} overview */
    live({ engine: now, model, version, uptime_s: uptime }) {
      const { mark, word, kind } = ENGINE[now.state] ?? { mark: "?", word: now.state, kind: "" };
      setText(engine, `${mark} ${word}`);
      engine.className = `tag ${kind}`;
      engine.hidden = false;
      const restarts = now.restarts ? `, engine restarted ${now.restarts === 1 ? "once" : `${now.restarts} times`}` : "";
      setText(about, `${model}, version ${version}, up ${duration(uptime)}${restarts}`);
      const calm = now.state === "ready";
      say(calm ? "" : now.state + now.detail, () => [engineNotice(now)]);
    },
    /** @param {Problem} problem @param {boolean} hasFigures */
    lost(problem, hasFigures) {
      setText(engine, "✕ not known now");
      engine.className = "tag bad";
      countdown = h("p");
      say(`lost ${problem.detail}`, () => [lostNotice(problem, hasFigures, countdown, onRetry)]);
    },
    /** @param {number | null} seconds until it is tried again */
    tick(seconds) {
      const shown = note.querySelector(".countdown");
      if (shown && seconds !== null) setText(shown, seconds > 0 ? `Trying again in ${seconds}\u00a0s.` : "Trying again now.");
    },
    /** @param {Date | null} at of the last figures @param {boolean} paused */
    from(at, paused) {
      pause.hidden = at === null;
      setText(pause, paused ? "Go on" : "Pause");
      if (!at) return setText(updated, "");
      const ago = Math.max(0, Math.round((Date.now() - at.getTime()) / 1000));
      setText(updated, `${paused ? "Paused. " : ""}Last update ${timeOf(at.toISOString())}, ${ago}\u00a0s ago`);
    },
  };
}

/** @param {Overview["engine"]} engine */
function engineNotice({ state, detail }) {
  const [title, text] = {
    starting: ["The engine is starting", "Questions that come now are refused until it is ready; this page shows it when it is."],
    restarting: ["The engine died and is started again", "Questions that were running have failed. Calibration jobs wait, and go on."],
    failed: ["The engine could not be started again", "The service needs a look at its log, and a restart."],
    stopping: ["The service is stopping", "What runs may finish; nothing new is taken."],
  }[state] ?? [state, ""];
  return h("div", { class: state === "starting" ? "notice" : "notice bad" }, h("h2", null, title ?? ""), h("p", null, `${text} (${detail})`));
}

/**
 * @param {Problem} problem
 * @param {boolean} hasFigures
 * @param {HTMLElement} countdown
 * @param {() => void} onRetry
 */
function lostNotice({ status, title, detail }, hasFigures, countdown, onRetry) {
  countdown.className = "countdown";
  const refused = status === 401 || status === 403;
  const heading = { 0: "Reconnecting", 401: "This needs an API key", 403: "This key may not see the service’s state" }[status] ?? title;
  const kept = hasFigures && !refused ? " The figures below are the last that came." : "";
  return h(
    "div",
    { class: "notice bad" },
    h("h2", null, heading),
    h("p", null, detail, kept),
    countdown,
    h("button", { type: "button", onclick: onRetry }, status === 401 ? "Give a key" : "Try now"),
  );
}
