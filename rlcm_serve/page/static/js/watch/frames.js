/** Work on the page, gathered into animation frames and kept short within each. */

/** Most of a frame that is worked in, ms; what is left over goes into the next frame. */
const SHARE_MS = 4;

/**
 * Draws things that changed, each at most once a frame, in the order in which they changed.
 *
 * @template Thing
 * @param {(thing: Thing) => boolean | void} draw whether that was enough for one frame
 * @returns {{ touch: (thing: Thing) => void, stop: () => void }} `touch` has a thing drawn
 *   soon
 */
export function frames(draw) {
  /** @type {Set<Thing>} */
  const waiting = new Set();
  let asked = 0;

  function frame() {
    asked = 0;
    const end = performance.now() + SHARE_MS;
    for (const thing of waiting) {
      waiting.delete(thing);
      if (draw(thing) || performance.now() >= end) break;
    }
    if (waiting.size) asked = requestAnimationFrame(frame);
  }

  return {
    touch(thing) {
      waiting.add(thing);
      asked ||= requestAnimationFrame(frame);
    },
    stop() {
      cancelAnimationFrame(asked);
      asked = 0;
      waiting.clear();
    },
  };
}
