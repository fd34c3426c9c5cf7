/** This moment: questions that run and wait, and the last minutes of both. */

import { chart } from "../charts.js";
import { h } from "../dom.js";
import { number } from "../format.js";
import { queueTiles } from "./overview.js";
import { tile } from "./tile.js";

/** @typedef {import("./overview.js").Overview} Overview */
/** @typedef {import("./overview.js").Moment} Moment */

const TICKS = [-300, -240, -180, -120, -60, 0];

/**
 * @returns {{ element: HTMLElement, update: (overview: Overview, moments: Moment[]) => void }}
 */
export function nowSection() {
  const tiles = {
    running: tile("Questions being answered"),
    waiting: tile("Questions waiting"),
    samples: tile("Samples in the engine"),
    requests: tile("Requests open"),
  };
  const root = h("div");
  const element = h(
    "section",
    { class: "now" },
    h("div", { class: "tiles" }, Object.values(tiles).map((one) => one.element)),
    root,
  );
  /** @type {import("../charts.js").Chart | null} */
  let drawn = null;
  return {
    element,
    update({ queue, engine, requests, figures }, moments) {
      const { running, waiting } = queueTiles(queue, figures);
      tiles.running.set(...running);
      tiles.waiting.set(...waiting);
      tiles.samples.set(shown(engine.requests), "thinking or answering");
      tiles.requests.set(shown(requests.in_flight), "over HTTP, including this page’s own");
      const settings = settingsOf(moments);
      if (drawn) drawn.update(settings);
      else drawn = chart(root, settings);
    },
  };
}

/** @param {number | null} count null: only operators may know it */
function shown(count) {
  return count === null ? "–" : number(count);
}

/**
 * @param {Moment[]} moments
 * @returns {import("../charts.js").ChartSettings}
 */
function settingsOf(moments) {
  const end = moments[moments.length - 1]?.at ?? 0;
  const x = moments.map(({ at }) => at - end);
  const running = moments.map((moment) => moment.running);
  const waiting = moments.map((moment) => moment.waiting);
  const top = Math.max(4, ...running.map(Number), ...waiting.map(Number));
  return {
    label: `Questions being answered and waiting over the last minutes; now ${running[running.length - 1] ?? 0} and ${waiting[waiting.length - 1] ?? 0}.`,
    height: 190,
    series: [
      { label: "being answered", x, y: running, kind: "steps", role: "blue", format: number },
      { label: "waiting", x, y: waiting, kind: "steps", role: "orange", dash: [6, 3], format: number },
    ],
    axes: {
      x: { label: "minutes ago", min: -300, max: 0, ticks: TICKS, format: (at) => number(Math.abs(at) / 60, 1) },
      y: { label: "questions", min: 0, max: Math.ceil(1.15 * top), format: (value) => (Number.isInteger(value) ? number(value) : "") },
    },
  };
}
