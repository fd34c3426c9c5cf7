/** What is drawn on a plot besides its series: bands behind them, marks and lines above. */

import { FONT } from "./plot.js";
import { colour } from "./theme.js";

/**
 * @typedef {object} Band a stretch of an axis, tinted or hatched
 * @property {"x" | "y"} axis along which `from` and `to` are
 * @property {number} from
 * @property {number} to
 * @property {string} [role] colour; "muted"
 * @property {boolean} [hatch] lines rather than a tint
 * @property {string} [label] in its middle, if there is room
 * @property {boolean} [corner] label it in its lower right corner instead
 */

/**
 * @typedef {object} Mark with both x and y a point, with one of them a line across
 * @property {number} [x]
 * @property {number} [y]
 * @property {string} [role] colour; "ink"
 * @property {string} [shape] of a point: one character such as "▲"
 * @property {string} [label] beside it
 * @property {number[]} [dash] of a line, CSS pixels; [5, 4]
 * @property {boolean} [foot] label a line along x at its foot rather than its head
 */

/**
 * @param {any} u uPlot
 * @param {Band[]} bands
 */
export function drawBands(u, bands) {
  const { ctx } = u;
  const { left, top, width, height } = u.bbox;
  ctx.save();
  clip(ctx, u.bbox);
  for (const { axis, from, to, role = "muted", hatch, label, corner } of bands) {
    const ends = [u.valToPos(from, axis, true), u.valToPos(to, axis, true)];
    const start = Math.max(Math.min(...ends), axis === "x" ? left : top);
    const end = Math.min(Math.max(...ends), axis === "x" ? left + width : top + height);
    if (!(end > start)) continue;
    /** @type {[number, number, number, number]} */
    const box = axis === "x" ? [start, top, end - start, height] : [left, start, width, end - start];
    if (hatch) drawHatch(ctx, box, colour(role));
    else {
      ctx.fillStyle = `${colour(role)}1c`;
      ctx.fillRect(...box);
    }
    if (label) {
      ctx.font = scaled();
      if (ctx.measureText(label).width < box[2] - 8) {
        ctx.fillStyle = colour(role);
        const edge = 6 * devicePixelRatio;
        if (corner) drawText(ctx, label, box[0] + box[2] - edge, box[1] + box[3] - edge, "right", "bottom");
        else drawText(ctx, label, box[0] + box[2] / 2, box[1] + box[3] / 2, "center", "middle");
      }
    }
  }
  ctx.restore();
}

/**
 * @param {any} u uPlot
 * @param {Mark[]} marks
 */
export function drawMarks(u, marks) {
  const { ctx } = u;
  const ratio = devicePixelRatio;
  const { left, top, width, height } = u.bbox;
  ctx.save();
  ctx.font = scaled();
  /** @type {Map<Mark, Label>} */
  const beside = new Map();
  for (const mark of marks) {
    const { x, y, label } = mark;
    if (label && x !== undefined && y !== undefined) {
      beside.set(mark, sideLabel(u, label, u.valToPos(x, "x", true), clearOf(u, u.valToPos(y, "y", true), marks)));
    }
  }
  for (const mark of marks) {
    const { x, y, role = "ink", shape = "●", label, dash = [5, 4], foot } = mark;
    ctx.strokeStyle = ctx.fillStyle = colour(role);
    ctx.lineWidth = 1.5 * ratio;
    const px = x === undefined ? left : u.valToPos(x, "x", true);
    const py = y === undefined ? top : u.valToPos(y, "y", true);
    if (px < left - 1 || px > left + width + 1 || py < top - 1 || py > top + height + 1) continue;
    if (x !== undefined && y !== undefined) {
      ctx.font = scaled(15);
      drawText(ctx, shape, px, py, "center", "middle");
      ctx.font = scaled();
      const own = beside.get(mark);
      if (own) drawText(ctx, own.text, own.x, own.y, own.align, "middle");
      continue;
    }
    ctx.setLineDash(dash.map((length) => length * ratio));
    ctx.beginPath();
    ctx.moveTo(px, py);
    ctx.lineTo(x === undefined ? left + width : px, x === undefined ? py : top + height);
    ctx.stroke();
    ctx.setLineDash([]);
    if (!label) continue;
    const gap = 4 * ratio;
    if (x !== undefined) {
      const own = sideLabel(u, label, px - 6 * ratio, foot ? top + height - 26 * ratio : top + 9 * ratio);
      drawText(ctx, own.text, own.x, own.y, own.align, "middle");
      continue;
    }
    // Beneath a line where there is no room above it, or a point's label is there.
    const end = left + width - gap;
    const start = end - ctx.measureText(label).width;
    const taken = [...beside.values()].some((one) => Math.abs(one.y - (py - 10 * ratio)) < 14 * ratio && one.to > start);
    if (taken || py - top < 16 * ratio) drawText(ctx, label, end, py + gap, "right", "top");
    else drawText(ctx, label, end, py - gap, "right", "bottom");
  }
  ctx.restore();
}

/**
 * Hatches a box: what is not there, rather than what is.
 *
 * @param {CanvasRenderingContext2D} ctx
 * @param {[number, number, number, number]} box x, y, width, height, device pixels
 * @param {string} stroke colour
 */
function drawHatch(ctx, [x, y, width, height], stroke) {
  const step = 7 * devicePixelRatio;
  ctx.save();
  ctx.beginPath();
  ctx.rect(x, y, width, height);
  ctx.clip();
  ctx.globalAlpha = 0.3;
  ctx.strokeStyle = stroke;
  ctx.lineWidth = devicePixelRatio;
  ctx.beginPath();
  for (let at = x - height; at < x + width; at += step) {
    ctx.moveTo(at, y + height);
    ctx.lineTo(at + height, y);
  }
  ctx.stroke();
  ctx.restore();
}

/**
 * Where the label of a point at `y` crosses no line: beside the point, or that much above or below.
 *
 * @param {any} u uPlot
 * @param {number} y device pixels
 * @param {Mark[]} marks
 */
function clearOf(u, y, marks) {
  const least = 11 * devicePixelRatio;
  const lines = marks.filter((one) => one.x === undefined && one.y !== undefined).map((one) => u.valToPos(one.y, "y", true));
  const near = lines.find((line) => Math.abs(line - y) < least);
  if (near === undefined) return y;
  const above = near - least;
  return y <= near && above - u.bbox.top > least / 2 ? above : near + least;
}

/** @typedef {{ text: string, x: number, y: number, align: CanvasTextAlign, to: number }} Label `to`: where it ends */

/**
 * A label right of a point, or left of it where it would leave the plot.
 *
 * @param {any} u uPlot
 * @param {string} text
 * @param {number} x
 * @param {number} y
 * @returns {Label}
 */
function sideLabel(u, text, x, y) {
  const gap = 11 * devicePixelRatio;
  const { left, width } = u.bbox;
  const wide = u.ctx.measureText(text).width;
  const fits = wide < left + width - x - gap;
  return fits ? { text, x: x + gap, y, align: "left", to: x + gap + wide } : { text, x: x - gap, y, align: "right", to: x - gap };
}

/**
 * Text on a halo of paper, so that lines under it do not make it hard to read.
 *
 * @param {CanvasRenderingContext2D} ctx
 * @param {string} text
 * @param {number} x
 * @param {number} y
 * @param {CanvasTextAlign} align
 * @param {CanvasTextBaseline} baseline
 */
export function drawText(ctx, text, x, y, align, baseline) {
  ctx.save();
  ctx.textAlign = align;
  ctx.textBaseline = baseline;
  ctx.lineJoin = "round";
  ctx.strokeStyle = colour("paper");
  ctx.lineWidth = 4 * devicePixelRatio;
  ctx.strokeText(text, x, y);
  ctx.restore();
  ctx.save();
  ctx.textAlign = align;
  ctx.textBaseline = baseline;
  ctx.fillText(text, x, y);
  ctx.restore();
}

/** The plots' font at a size in CSS pixels, in device pixels as a canvas wants it. */
function scaled(size = 12) {
  return FONT.replace("12px", `${size * devicePixelRatio}px`);
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {{ left: number, top: number, width: number, height: number }} box
 */
function clip(ctx, { left, top, width, height }) {
  ctx.beginPath();
  ctx.rect(left, top, width, height);
  ctx.clip();
}
