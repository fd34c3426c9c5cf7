/** How things stand: the engine, when the figures are from, and whether they still come. */

import { h, replace, setText } from "../dom.js";
import { duration, sentence } from "../format.js";
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
 * @param {(problem: Problem) => void} options.onRetry after what went wrong
 */
export function status({ onPause, onRetry }) {
  const engine = h("span", { class: "tag", hidden: true });
  const about = h("span", { class: "muted" });
  const updated = h("span", { class: "muted" });
  const pause = h("button", { type: "button", onclick: onPause }, "Pause");
  const words = h("div", { role: "status" });
  // Not within the words: whoever listens to the page would hear every second of it.
  const countdown = h("p");
  const retry = h("button", { type: "button" });
  const note = h("div", null, words, countdown, retry);
  const element = h("div", { class: "status" }, h("div", { class: "row" }, engine, about, h("span", { class: "row end" }, updated, pause)), note);
  let told = "";
  pause.hidden = countdown.hidden = retry.hidden = true;

  /**
   * @param {string} title of what is wrong; none if nothing is
   * @param {string} text
   * @param {string} look its class
   */
  function say(title, text, look) {
    if (title + text === told) return; // so that it is said once
    told = title + text;
    replace(words, title ? [h("h2", null, title), h("p", null, text)] : []);
    note.className = look;
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
      retry.hidden = true;
      if (now.state === "ready") say("", "", "");
      else say(...engineWords(now), now.state === "starting" ? "notice" : "notice bad");
    },
    /** @param {Problem} problem @param {boolean} hasFigures */
    lost(problem, hasFigures) {
      setText(engine, "✕ state unknown");
      engine.className = "tag bad";
      retry.hidden = false;
      setText(retry, problem.retryWords("Try now"));
      retry.onclick = () => onRetry(problem);
      say(...lostWords(problem, hasFigures), "notice bad");
    },
    /** @param {number | null} seconds until it is tried again; null if it is not */
    tick(seconds) {
      countdown.hidden = retry.hidden || seconds === null;
      setText(countdown, seconds ? `Trying again in ${seconds}\u00a0s.` : "Trying again now.");
    },
    /** @param {Date | null} at of the last figures @param {boolean} paused */
    from(at, paused) {
      pause.hidden = at === null;
      setText(pause, paused ? "Resume" : "Pause");
      if (!at) return setText(updated, "");
      const ago = Math.max(0, Math.round((Date.now() - at.getTime()) / 1000));
      setText(updated, `${paused ? "Paused. " : ""}Last update ${timeOf(at.toISOString())}, ${ago}\u00a0s ago`);
    },
  };
}

/**
 * @param {Overview["engine"]} engine
 * @returns {[string, string]} a title and a text
 */
function engineWords({ state, detail }) {
  const [title = state, text = ""] = {
    starting: ["The engine is starting", "Until it is ready, questions are refused. This page updates by itself."],
    restarting: ["The engine stopped and is restarting", "The questions that were running have failed. Calibration jobs wait and then continue."],
    failed: ["The engine could not be restarted", "Read the service’s log, then restart the service."],
    stopping: ["The service is stopping", "Running questions may finish. New ones are refused."],
  }[state] ?? [];
  return [title, `${text} ${sentence(detail)}`];
}

/**
 * @param {Problem} problem
 * @param {boolean} hasFigures
 * @returns {[string, string]} a title and a text
 */
function lostWords({ status, title, detail, refusesKey }, hasFigures) {
  const heading = { 0: "Reconnecting", 401: "This needs an API key", 403: refusesKey && "This key may not read the service’s state" }[status] || title;
  const kept = hasFigures && !refusesKey ? " The figures below are from the last update." : "";
  return [heading, detail + kept];
}
