/** Where to read what to do: the section of the runbooks that an alert names. */

import { h } from "../dom.js";

/**
 * @param {string} name of the alert
 * @param {string | null} [address] of its section, if the service says one
 * @returns {HTMLElement} a link, or where to find it
 */
export function runbook(name, address) {
  if (address?.startsWith("http")) return h("a", { href: address, rel: "noreferrer", target: "_blank" }, `Runbook ${name}`);
  return h("span", { class: "runbook" }, "Runbook ", h("code", null, address ?? `docs/guides/runbooks.md#${name.toLowerCase()}`));
}
