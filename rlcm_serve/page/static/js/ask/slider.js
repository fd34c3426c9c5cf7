/** A slider whose stops may be far from even, some of them named below it. */

import { h, replace, setText, uniqueId } from "../dom.js";

/**
 * @typedef {object} Stop
 * @property {number} value
 * @property {string} text as it is written below, if named
 * @property {boolean} named
 *
 * @typedef {object} Slider
 * @property {HTMLElement} element
 * @property {() => number} value
 * @property {(stops: Stop[], value: number, note: string) => void} set the note says what the value
 *   means, below the stops
 */

/**
 * @param {string} label
 * @param {(value: number) => string} format of the value in large, and read aloud
 * @param {(value: number) => void} onChange by the user
 * @returns {Slider}
 */
export function slider(label, format, onChange) {
  const id = uniqueId("slider");
  /** @type {Stop[]} */
  let stops = [];
  const shown = h("output", { class: "slider-value", for: id });
  const note = h("p", { class: "slider-note", id: `${id}-note` });
  const ticks = h("div", { class: "slider-ticks", "aria-hidden": "true" });
  const input = h("input", {
    id,
    type: "range",
    min: 0,
    step: 1,
    "aria-describedby": `${id}-note`,
    oninput: () => {
      describe();
      onChange(value());
    },
  });

  function value() {
    return stops[Number(input.value)]?.value ?? 0;
  }

  function describe() {
    const stop = stops[Number(input.value)];
    if (!stop) return;
    setText(shown, format(stop.value));
    input.setAttribute("aria-valuetext", `${format(stop.value)}${stop.named ? ", certified" : ""}`);
    const share = Number(input.value) / Math.max(stops.length - 1, 1);
    input.style.setProperty("--share", String(share));
  }

  /** @param {Stop} stop @param {number} at */
  function tick(stop, at) {
    const left = `${(100 * at) / Math.max(stops.length - 1, 1)}%`;
    const choose = () => {
      input.value = String(at);
      input.dispatchEvent(new Event("input"));
    };
    return h("span", { class: "tick", style: { left }, onclick: choose }, h("i", null, "◆"), stop.text);
  }

  const element = h(
    "div",
    { class: "slider" },
    h("div", { class: "slider-head" }, h("label", { for: id }, label), shown),
    h("div", { class: "slider-track" }, input, ticks),
    note,
  );
  return {
    element,
    value,
    set(next, chosen, text) {
      // Ticks that stay the same stay in place: a click on one is lost if it is replaced while it is pressed.
      const differs = JSON.stringify(next) !== JSON.stringify(stops);
      stops = next;
      input.max = String(stops.length - 1);
      const nearest = stops.reduce((best, stop, at) => {
        const closer = Math.abs(stop.value - chosen) < Math.abs((stops[best]?.value ?? Infinity) - chosen);
        return closer ? at : best;
      }, 0);
      input.value = String(nearest);
      if (differs) replace(ticks, stops.map((stop, at) => stop.named && tick(stop, at)));
      setText(note, text);
      describe();
    },
  };
}

/**
 * Stops at all given values, each once, those among `named` named.
 *
 * @param {number[]} values
 * @param {number[]} named
 * @param {(value: number) => string} text
 * @returns {Stop[]}
 */
export function stopsAt(values, named, text) {
  const all = [...new Set([...values, ...named])].sort((a, b) => a - b);
  return all.map((value) => ({ value, text: text(value), named: named.includes(value) }));
}
