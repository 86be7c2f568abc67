// What is inside a norm: alpha, and the moments of the layer that was chosen.

import { $, element, percent, svg } from "./dom.js";
import { alphaOf, batch, used } from "./moments.js";

const HEIGHT = 250;
const LEFT = 44;
const WORDS = {
  "TaskNorm-I": "the context, pooled with this drawing itself",
  "TaskNorm-L": "the context, pooled with this drawing over all channels",
  "TaskNorm-r": "the context, pooled with running moments of the training",
  MetaBN: "the context",
  RN: "the context and this drawing",
  TBN: "the targets that arrive together",
  CBN: "running moments of the training",
  BRN: "running moments of the training",
  Baseline: "running moments of the training",
  IN: "this drawing itself",
  LN: "this drawing over all channels",
  GN: "this drawing over groups of channels",
};

/** Shows a layer. `seen` holds the layer's instance moments: those of the context, of the set, and the target's own. */
export function showInside(model, layer, seen) {
  const size = seen?.context.length ?? 0;
  showAlpha(layer, size);
  const box = $("plot");
  if (!seen) {
    box.replaceChildren(element("p", { class: "idle" }, "Teach two classes and draw a target: its moments appear here."));
    $("plot-caption").textContent = "";
    return;
  }
  const context = batch(seen.context);
  const set = batch(seen.set);
  const moments = used(model.norm, layer, { context, own: seen.own, set, size });
  box.replaceChildren(plot(context, seen.own, moments, box.clientWidth || 320));
  $("plot-caption").replaceChildren(
    element("span", { class: "key used" }, `${model.norm} uses ${WORDS[model.norm] ?? "its own moments"}`),
    element("span", { class: "key context" }, `context, ${size} ${size === 1 ? "drawing" : "drawings"}`),
    element("span", { class: "key own" }, "this drawing itself"),
    element("span", {}, "Each column is a channel: mean and one standard deviation. Channels are in the order of the context's mean."),
  );
}

function showAlpha(layer, size) {
  const alpha = size ? alphaOf(layer, size) : null;
  if (alpha === null) {
    $("alpha").replaceChildren();
    return;
  }
  const mean = Array.isArray(alpha) ? alpha.reduce((a, b) => a + b, 0) / alpha.length : alpha;
  const label = `alpha = ${mean.toFixed(2)}: ${percent(mean)} context, ${percent(1 - mean)} this drawing`;
  $("alpha").replaceChildren(
    element("p", { class: "alpha-words" }, label),
    element("div", { class: "scale", style: { "--alpha": mean }, "aria-hidden": "true" },
      element("span", {}, "this drawing"), element("i", {}), element("span", {}, "context")),
    curve(layer, size),
  );
}

/** Alpha by the context's size, with a mark where this context is. */
function curve(layer, size) {
  const [width, height, most] = [320, 46, Math.max(50, size)];
  const at = n => {
    const alpha = alphaOf(layer, n);
    return Array.isArray(alpha) ? alpha.reduce((a, b) => a + b, 0) / alpha.length : alpha;
  };
  const x = n => 6 + ((n - 1) / (most - 1)) * (width - 12);
  const y = a => height - 6 - a * (height - 12);
  const points = Array.from({ length: most }, (_, i) => `${x(i + 1).toFixed(1)},${y(at(i + 1)).toFixed(1)}`).join(" ");
  return svg("svg", { viewBox: `0 0 ${width} ${height + 14}`, class: "curve", role: "img",
    "aria-label": `Alpha is ${at(1).toFixed(2)} for a context of 1 and ${at(most).toFixed(2)} for one of ${most}.` },
    svg("line", { x1: 6, x2: width - 6, y1: y(0), y2: y(0), class: "axis" }),
    svg("polyline", { points, class: "line" }),
    svg("circle", { cx: x(size), cy: y(at(size)), r: 4.5, class: "mark" }),
    svg("text", { x: 6, y: height + 10 }, "context of 1"),
    svg("text", { x: width - 6, y: height + 10, "text-anchor": "end" }, `of ${most}`));
}

function plot(context, own, moments, width) {
  const channels = context.mean.map((_, c) => c).sort((a, b) => context.mean[a] - context.mean[b]);
  const ends = [context, own, moments].flatMap(m =>
    m.mean.flatMap((mu, c) => [mu - Math.sqrt(m.variance[c]), mu + Math.sqrt(m.variance[c])]));
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const span = high - low || 1;
  const y = value => 10 + ((high - value) / span) * (HEIGHT - 24);
  const step = (width - LEFT - 8) / channels.length;
  const x = i => LEFT + (i + 0.5) * step;
  const bar = (m, kind, shift, thick) => channels.map((c, i) => {
    const deviation = Math.sqrt(m.variance[c]);
    const at = x(i) + shift * step;
    return svg("g", { class: kind },
      svg("line", { x1: at, x2: at, y1: y(m.mean[c] - deviation), y2: y(m.mean[c] + deviation), "stroke-width": Math.max(1, thick * step) }),
      svg("circle", { cx: at, cy: y(m.mean[c]), r: Math.max(1.4, Math.min(3, 0.24 * step)) }));
  });
  const ticks = [low, (low + high) / 2, high].map(value => [
    svg("line", { x1: LEFT, x2: width - 6, y1: y(value), y2: y(value), class: "grid" }),
    svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, Math.abs(value) < 0.005 ? "0" : value.toPrecision(2)),
  ]).flat();
  return svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, class: "moments", role: "img",
    "aria-label": `Moments of ${channels.length} channels: context, this drawing, and what the norm uses.` },
    ticks, bar(context, "context", -0.26, 0.2), bar(own, "own", 0.26, 0.2), bar(moments, "used", 0, 0.26));
}
