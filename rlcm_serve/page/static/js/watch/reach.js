/** How far the axis of tokens reaches: to what samples usually take, and on as one takes more. */

/** Of the usual length, so that its end is not at the edge. */
const ROOM = 1.25;
/** Where nothing is known of the usual length. */
const UNKNOWN = 512;
const GROWTH = 1.5;
/** Of the axis: a sample beyond it makes the axis grow. */
const FULL = 0.95;

/**
 * @param {number} tokens of the sample so far
 * @param {number | null} usual tokens of a sample that is not stopped early, on average
 * @param {number} budget
 */
export function reachOf(tokens, usual, budget) {
  let reach = usual === null ? UNKNOWN : usual * ROOM;
  while (tokens > reach * FULL && reach < budget) reach *= GROWTH;
  return Math.min(budget, Math.max(reach, 1));
}

/**
 * Round numbers along an axis.
 *
 * @param {number} reach
 * @param {number} most ticks
 */
export function ticksUpTo(reach, most) {
  const rough = reach / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((by) => by * power).find((by) => by >= rough) ?? rough;
  const ticks = [];
  for (let at = 0; at <= reach + 1e-9; at += step) ticks.push(at);
  return ticks;
}
