/** The log of a calibration job: its last lines as they come, all that is kept once it is opened. */

import { Problem } from "../api.js";
import { h, replace } from "../dom.js";
import { clock } from "../format.js";

/** @typedef {{ time: string, text: string }} Line */

/**
 * @param {string} id of the job
 * @param {import("../api.js").Api} api
 * @returns {{ element: HTMLDetailsElement, add: (lines: Line[]) => void }}
 */
export function jobLog(id, api) {
  const list = h("ol", { class: "job-log", tabindex: "0", "aria-label": `Log of ${id}` });
  const note = h("p", { class: "muted", hidden: true });
  const element = h("details", null, h("summary", null, "Log"), note, list);
  /** @type {Map<string, Line>} */
  const known = new Map();
  let whole = false;

  /** @param {Line[]} lines */
  function add(lines) {
    const before = known.size;
    for (const line of lines) known.set(`${line.time} ${line.text}`, line);
    element.hidden = known.size === 0;
    if (known.size === before) return;
    const atEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 8;
    const sorted = [...known.values()].sort((a, b) => a.time.localeCompare(b.time));
    replace(list, sorted.map(({ time, text }) => h("li", null, h("time", { datetime: time }, timeOf(time)), " ", text)));
    if (atEnd) list.scrollTop = list.scrollHeight;
  }

  element.addEventListener("toggle", async () => {
    list.scrollTop = list.scrollHeight;
    if (!element.open || whole) return;
    whole = true;
    try {
      add((await api.get(`calibrations/${encodeURIComponent(id)}`)).log);
      list.scrollTop = list.scrollHeight;
      note.hidden = true;
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      whole = false; // opening it again tries again
      replace(note, `Earlier lines could not be loaded: ${error.detail}`);
      note.hidden = false;
    }
  });
  return { element, add };
}

/**
 * A time of day, with the day if it is not today.
 *
 * @param {string} iso
 */
export function timeOf(iso) {
  const at = new Date(iso);
  const day = at.toDateString() === new Date().toDateString() ? "" : `${at.toLocaleDateString("en", { day: "numeric", month: "short" })}, `;
  return day + clock(at);
}
