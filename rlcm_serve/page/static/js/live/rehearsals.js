/** Certificates that were judged on live questions: what each would have done, and the button that activates it. */

import { Problem } from "../api.js";
import { h, replace, setText } from "../dom.js";
import { measured, number, percent, range } from "../format.js";
import { writeFragment } from "../fragment.js";
import { timeOf } from "../operate/job-log.js";
import { confirmed } from "./confirmed.js";

/**
 * @typedef {{ of: number, value: number | null, low: number | null, high: number | null }} Figure
 * @typedef {{ alpha: number, questions: number, undecided: number, saved: Figure, answered: Figure,
 *   lost: Figure, wrong: Figure, missing: number }} Level
 * @typedef {{ certificate: string, running: boolean, started: string, ended: string | null,
 *   levels: Level[] }} Rehearsal as in `GET /rehearsals`
 */

const EVERY_MS = 60_000;
const PATIENCE_MS = 10_000;
const NO_LABEL = "no label yet";
const ACTIVE = "● This certificate is active.";
const UNDECIDED =
  "Undecided questions were stopped before this level would have stopped them. The level saves at most what is shown, and the other figures leave them out.";
const MISSING =
  "Of missing answers it is not known what this level would have answered. They count as lost and as wrong; the lower ends of the intervals count them as neither.";

/** @type {{ name: "saved" | "answered" | "lost" | "wrong", title: string, of: string, none: string }[]} */
const COLUMNS = [
  { name: "saved", title: "Tokens saved", of: "questions", none: "–" },
  { name: "answered", title: "Answered", of: "questions", none: "not known" },
  { name: "lost", title: "Right answers lost", of: "labels", none: NO_LABEL },
  { name: "wrong", title: "Wrong, at most", of: "labels", none: NO_LABEL },
];

/**
 * @param {import("../api.js").Api} api
 * @param {() => void} onActivated
 * @returns {{ element: HTMLElement, look: (mayRead: boolean, active: string[]) => void }} `look` asks the service, at
 *   most once a minute; `active` are the ids of the active certificates
 */
export function rehearsalsSection(api, onActivated) {
  const list = h("div", { class: "live-certificates" });
  const element = h(
    "section",
    { class: "rehearsals-section", hidden: true },
    h("h3", null, "Before a new certificate serves"),
    h("p", { class: "term" }, "Questions are answered as before. Their readings tell what each level of the new certificate would have done with them. Intervals are of 95%."),
    list,
    h(
      "p",
      { class: "term" },
      "Saved: share of the thinking tokens. Answered: share of the questions on which the level does not abstain. Lost: share of the labelled answers that are right, and where it would have abstained or answered otherwise. Wrong: share of its own answers to labelled questions; at most so many, because another answer than the one given may be right.",
    ),
  );
  /** @type {Map<string, ReturnType<typeof rehearsalCard>>} */
  const cards = new Map();
  let due = 0;

  /** @param {Rehearsal[]} rehearsals */
  function show(rehearsals) {
    element.hidden = rehearsals.length === 0;
    for (const one of rehearsals) {
      if (!cards.has(one.certificate)) cards.set(one.certificate, rehearsalCard(one.certificate, api, onActivated));
      cards.get(one.certificate)?.update(one);
    }
    const wanted = rehearsals.map(({ certificate }) => /** @type {ReturnType<typeof rehearsalCard>} */ (cards.get(certificate)).element);
    const same = wanted.length === list.children.length && wanted.every((one, at) => one === list.children[at]);
    if (!same) replace(list, wanted);
  }

  return {
    element,
    async look(mayRead, active) {
      if (!mayRead) return show([]);
      for (const [id, card] of cards) card.activated(active.includes(id));
      if (Date.now() < due) return;
      due = Date.now() + EVERY_MS;
      try {
        const { rehearsals } = await api.get("rehearsals", undefined, PATIENCE_MS);
        show(/** @type {Rehearsal[]} */ (rehearsals).filter(({ certificate }) => cards.has(certificate) || !active.includes(certificate)));
      } catch (error) {
        if (!(error instanceof Problem)) throw error; // the rest of the view says what is wrong
      }
    },
  };
}

/**
 * @param {string} id
 * @param {import("../api.js").Api} api
 * @param {() => void} onActivated
 */
function rehearsalCard(id, api, onActivated) {
  const state = h("span", { class: "tag" });
  const table = h("div");
  const note = h("p", { class: "term" });
  const button = activation(id, api, onActivated);
  const element = h(
    "article",
    { class: "card" },
    h("div", { class: "row" }, h("h4", null, h("a", { href: writeFragment("trust", { id }) }, "Certificate ", h("code", null, id))), state),
    table,
    note,
    button.element,
  );
  let shape = "";
  let isActive = false;
  return {
    element,
    /** @param {Rehearsal} rehearsal */
    update({ running, started, ended, levels }) {
      setText(state, running ? `● judged since ${timeOf(started)}` : `○ judged until ${timeOf(ended ?? started)}`);
      const next = JSON.stringify(levels);
      if (next === shape) return;
      shape = next;
      replace(table, levels.length ? levelTable(id, levels) : h("p", { class: "muted" }, "No question has come yet."));
      const notes = [];
      if (levels.some((level) => level.undecided > 0)) notes.push(UNDECIDED);
      if (levels.some((level) => level.missing > 0)) notes.push(MISSING);
      note.hidden = notes.length === 0;
      setText(note, notes.join(" "));
    },
    /** @param {boolean} now whether the certificate is active */
    activated(now) {
      if (now === isActive) return; // just activated, it may not be listed yet
      isActive = now;
      if (now) return button.done(ACTIVE);
      button.say("");
      button.offer();
    },
  };
}

/**
 * @param {string} id
 * @param {Level[]} levels
 */
function levelTable(id, levels) {
  const head = ["Target α", "Questions", ...COLUMNS.map(({ title }) => title)];
  return h(
    "table",
    { class: "evidence live rehearsed", role: "table" },
    h("caption", { class: "unseen" }, `What certificate ${id} would have done, level by level`),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, head.map((name) => h("th", { scope: "col", role: "columnheader" }, name)))),
    h("tbody", { role: "rowgroup" }, levels.map(levelRow)),
  );
}

/** @param {Level} level */
function levelRow(level) {
  const undecided = level.undecided ? `, ${number(level.undecided)} undecided` : "";
  const missing = level.missing ? `, ${number(level.missing)} missing` : "";
  return h(
    "tr",
    { role: "row" },
    h("th", { scope: "row", role: "rowheader" }, h("div", { class: "target" }, percent(level.alpha))),
    h("td", { role: "cell", class: "figure", "data-label": "Questions" }, h("div", { class: "words" }, `${number(level.questions)}${undecided}${missing}`)),
    COLUMNS.map(({ name, title, of, none }) => {
      const { value, low, high, of: total } = level[name];
      const most = name === "saved" && level.undecided ? "at most " : "";
      const shown = value === null ? none : [
        h("b", null, `${most}${measured(value)}`),
        " ",
        low !== null && high !== null && h("span", { class: "interval" }, range(low, high)),
        h("small", { class: "side" }, `of ${number(total)} ${of}`),
      ];
      return h("td", { role: "cell", class: "figure", "data-label": title }, h("div", { class: "words" }, shown));
    }),
  );
}

/**
 * @param {string} id
 * @param {import("../api.js").Api} api
 * @param {() => void} onActivated
 */
function activation(id, api, onActivated) {
  return confirmed({
    verb: "Activate",
    id,
    question: "Questions that this certificate covers will be answered under it, with its guarantee, in place of the certificate that covers them now.",
    yes: "Activate now",
    not: "Not activated",
    async run() {
      await api.post(`certificates/${encodeURIComponent(id)}/activate`, PATIENCE_MS);
      onActivated();
      return ACTIVE;
    },
  });
}
