/** Numbers as people read them, with their units. */

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/**
 * A number with at most so many decimals: 1234.5 -> "1,235", (0.0123, 3) -> "0.012".
 *
 * @param {number} value
 * @param {number} [decimals]
 */
export function number(value, decimals = 0) {
  if (decimals === 0) return whole.format(value);
  return new Intl.NumberFormat("en", { maximumFractionDigits: decimals }).format(value);
}

/**
 * A share that somebody chose, as it was chosen and as statements write it, with up to six digits: α, a setting, a
 * tick. 0.1 -> "10%", 0.12344 -> "12.344%", 0.00004 -> "0.004%". What would round to 100% has more digits.
 *
 * @param {number} share in [0, 1]
 */
export function percent(share) {
  const digits = [6, 12, 15].find((some) => share >= 1 || Number((share * 100).toPrecision(some)) < 100) ?? 17;
  return `${number(Number((share * 100).toPrecision(digits)), 20)}%`;
}

/**
 * A bound on a share, rounded up at the third digit as in statements, as less was not shown:
 * 0.19447 -> "19.5%", 0.4 -> "40%".
 *
 * @param {number} share in [0, 1]
 */
export function atMost(share) {
  const { value, decimals } = roundedUp(share);
  return `${number(value, decimals)}%`;
}

/**
 * What such a bound leaves of all, rounded down with as many decimals: 0.1 -> "90%", 0.1 / 12 -> "99.166%".
 *
 * @param {number} share in [0, 1]
 */
export function allBut(share) {
  const { value, decimals } = roundedUp(share);
  return `${number(100 - value, decimals)}%`;
}

/** @param {number} share @returns {{ value: number, decimals: number }} in percent, rounded up at the third digit */
function roundedUp(share) {
  if (share <= 0) return { value: 0, decimals: 0 };
  const exact = Number((share * 100).toPrecision(12));
  const decimals = Math.max(0, 2 - Math.floor(Math.log10(exact)));
  const scale = 10 ** decimals;
  return { value: Math.ceil(Number((exact * scale).toPrecision(12))) / scale, decimals };
}

/**
 * A share that was counted or estimated, always with one decimal, so that figures beside each other
 * look alike: 0.19 -> "19.0%", 0.134 -> "13.4%". None and all are exact: 0 -> "0%", 1 -> "100%"; what
 * would round to them has more decimals: 0.9996 -> "99.96%".
 *
 * @param {number} share in [0, 1]
 */
export function measured(share) {
  if (share <= 0 || share >= 1) return `${whole.format(share * 100)}%`;
  let decimals = 1;
  while (decimals < 4 && [0, 100].includes(Number((share * 100).toFixed(decimals)))) decimals += 1;
  return `${(share * 100).toFixed(decimals)}%`;
}

/**
 * A measured share with its interval: (0.046, 0.031, 0.062) -> "4.6% (3.1% to 6.2%)"; without one, alone.
 *
 * @param {number} share
 * @param {number | null} low
 * @param {number | null} high
 */
export function within(share, low, high) {
  return low === null || high === null ? measured(share) : `${measured(share)} (${range(low, high)})`;
}

/**
 * An interval of measured shares: (0.031, 0.062) -> "3.1% to 6.2%".
 *
 * @param {number} low
 * @param {number} high
 */
export function range(low, high) {
  return `${measured(low)} to ${measured(high)}`;
}

/**
 * A count with its noun: (1, "token") -> "1 token", (960, "token") -> "960 tokens".
 *
 * @param {number} count
 * @param {string} noun singular
 * @param {string} [plural]
 */
export function count(count, noun, plural = `${noun}s`) {
  const shown = number(count);
  return `${shown}\u00a0${shown === "1" ? noun : plural}`;
}

/**
 * @param {number} value tokens
 */
export function tokens(value) {
  return count(value, "token");
}

/**
 * A reading, cut rather than rounded: 0.9996 -> "0.99", (0.98512, 4) -> "0.9851".
 * Rounding up would show a reading at a threshold that it has not reached. One that could not be read is "–".
 *
 * @param {number} value in [0, 1], or NaN
 * @param {number} [decimals] `decimalsOf` the thresholds beside it
 */
export function confidence(value, decimals = 2) {
  if (!Number.isFinite(value)) return "–";
  const scale = 10 ** decimals;
  return (Math.floor(value * scale + 1e-9) / scale).toFixed(decimals);
}

/**
 * A threshold with the decimals it has, up to four, or more close to 0 and 1: 0.75 -> "0.75", 0.9755 -> "0.9755",
 * 0.9999546 -> "0.999954". It is cut as readings are, so that one that has reached it is never shown below it.
 *
 * @param {number} value
 */
export function threshold(value) {
  return confidence(value, mostDecimals(value)).replace(/(\.\d\d\d*?)0+$/, "$1");
}

/**
 * A reading and a threshold in one sentence. If it missed that, both have as many decimals as show so, up to nine:
 * (0.64, 0.65) -> ["0.64", "0.65"], (0.65001, 0.65004) -> ["0.65001", "0.65004"].
 *
 * @param {number} reading
 * @param {number} value of the threshold
 * @param {number} [decimals] of the reading at least
 * @returns {[string, string]}
 */
export function beside(reading, value, decimals = 2) {
  const [read, needed] = [confidence(reading, decimals), threshold(value)];
  if (!(reading < value) || Number(read) < Number(needed)) return [read, needed];
  let most = decimals;
  while (most < 9 && confidence(reading, most) === confidence(value, most)) most += 1;
  return [confidence(reading, most), confidence(value, most)];
}

/**
 * As many decimals as leave two significant digits of the distance to 0 or 1, from four to nine.
 *
 * @param {number} value
 */
function mostDecimals(value) {
  const distance = Math.min(value, 1 - value);
  return distance > 0 ? Math.min(9, Math.max(4, 1 + Math.ceil(-Math.log10(distance)))) : 4;
}

/**
 * Decimals in which a reading has to be written beside thresholds, so that it can be seen on which side
 * of them it is: as many as they have, and two at least.
 *
 * @param {number[]} thresholds
 */
export function decimalsOf(thresholds) {
  return Math.max(2, ...thresholds.map((value) => threshold(value).split(".")[1]?.length ?? 0));
}

/**
 * A risk as a frequency: 0.1 -> "1 of 10", 0.05 -> "1 of 20", 0.3 -> "3 of 10", 0.175 -> "175 of 1,000". One that is
 * no round number is rounded up at the third digit: 0.12344 -> "124 of 1,000".
 *
 * @param {number} share in (0, 1)
 */
export function frequency(share) {
  const inverse = 1 / share;
  if (Math.abs(inverse - Math.round(inverse)) < 1e-9) return `1 of ${whole.format(inverse)}`;
  const isWhole = (/** @type {number} */ value) => Math.abs(value - Math.round(value)) <= 1e-9 * value;
  let base = 10;
  while (share * base < 100 && !isWhole(share * base)) base *= 10;
  return `${whole.format(Math.ceil(share * base * (1 - 1e-9)))} of ${whole.format(base)}`;
}

/** Whether a frequency is of one, as in "1 of 10". @param {string} often */
export function isOne(often) {
  return often.startsWith("1 of ");
}

/**
 * The most of some trials that fail on average, never told too low: (0.06, 20) -> "at most about 2 of 20",
 * (0.01, 20) -> "fewer than 1 of 20".
 *
 * @param {number} probability of a trial's failure
 * @param {number} trials
 */
export function mostOf(probability, trials) {
  const failures = probability * trials;
  if (failures < 1 - 1e-9) return `fewer than 1 of ${trials}`;
  return `at most about ${Math.ceil(failures - 1e-9)} of ${trials}`;
}

/**
 * A time span: 0.84 -> "840 ms", 4.2 -> "4.2 s", 75 -> "1 min 15 s", 7300 -> "2 h 1 min".
 *
 * @param {number} seconds
 */
export function duration(seconds) {
  if (seconds < 1) return `${whole.format(seconds * 1000)}\u00a0ms`;
  if (seconds < 10) return `${number(seconds, 1)}\u00a0s`;
  if (seconds < 60) return `${whole.format(seconds)}\u00a0s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}\u00a0min ${Math.floor(seconds % 60)}\u00a0s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${whole.format(hours)}\u00a0h ${minutes % 60}\u00a0min`;
  return `${whole.format(Math.floor(hours / 24))}\u00a0d ${hours % 24}\u00a0h`;
}

/**
 * What the service says, as a sentence: "the queue is full" -> "The queue is full."
 *
 * @param {string} text
 */
export function sentence(text) {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[\p{L}\p{N})\]”"']$/u.test(text) ? "." : ""}`;
}

/**
 * A list in words: ["a", "b", "c"] -> "a, b and c".
 *
 * @param {string[]} items
 * @param {string} [last] the word before the last one
 */
export function list(items, last = "and") {
  if (items.length < 2) return items.join("");
  return `${items.slice(0, -1).join(", ")} ${last} ${items[items.length - 1]}`;
}

/**
 * A time of day: "00:05:07".
 *
 * @param {Date} at
 */
export function clock(at) {
  return at.toLocaleTimeString("en", { hourCycle: "h23" }); // `hour12: false` writes 24:05 in English
}
