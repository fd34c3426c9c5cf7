/** Reading server-sent events from a response's body (HTML standard, "event stream"). */

/** The connection broke before the body's end. */
export class StreamBroken extends Error {}

/**
 * Calls `onEvent` for each event that carries data, until the body ends. Comments, such as the
 * heartbeat, are passed over, and so is an event that the end cuts off. A connection may stall without
 * any error, so one on which nothing comes for `silenceMs`, not even a heartbeat, is broken too.
 *
 * @param {ReadableStream<Uint8Array>} body
 * @param {(name: string, data: string) => void} onEvent
 * @param {number} [silenceMs] some heartbeats long
 * @returns {Promise<void>} raises StreamBroken, or AbortError if the request was aborted
 */
export async function readEvents(body, onEvent, silenceMs = 60_000) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let name = "message";
  /** @type {string[]} */
  let data = [];

  /** @param {string} line */
  function take(line) {
    if (line === "") {
      if (data.length) onEvent(name, data.join("\n"));
      name = "message";
      data = [];
      return;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") name = value;
    else if (field === "data") data.push(value);
  }

  try {
    for (;;) {
      const reading = reader.read().catch((/** @type {Error} */ error) => {
        throw error.name === "AbortError" ? error : new StreamBroken(error.message);
      });
      const { done, value } = await within(silenceMs, reading);
      if (done) return;
      rest += decoder.decode(value, { stream: true });
      const lines = rest.split(/\r\n|\n|\r(?!$)/); // a last \r may be half of a line's end
      rest = lines.pop() ?? "";
      lines.forEach(take);
    }
  } finally {
    reader.cancel().catch(() => {}); // it may have ended already
  }
}

/**
 * @template T
 * @param {number} ms
 * @param {Promise<T>} reading
 * @returns {Promise<T>} raises StreamBroken if it takes longer
 */
function within(ms, reading) {
  let timer = 0;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new StreamBroken("nothing came any more")), ms);
  });
  return Promise.race([reading, late]).finally(() => clearTimeout(timer));
}
