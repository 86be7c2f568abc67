// Made-up characters that the page can draw by itself, each time a little differently.

const arc = (x, y, rx, ry, from, to, steps = 18) =>
  Array.from({ length: steps + 1 }, (_, i) => {
    const turn = ((from + ((to - from) * i) / steps) * Math.PI) / 180;
    return [x + rx * Math.cos(turn), y + ry * Math.sin(turn)];
  });

const spiral = Array.from({ length: 41 }, (_, i) => {
  const turn = (i / 40) * 4.2 * Math.PI;
  return [0.5 + (0.05 + 0.024 * turn) * Math.cos(turn), 0.5 + (0.05 + 0.024 * turn) * Math.sin(turn)];
});

export const CHARACTERS = [
  { name: "hook", strokes: [[[0.35, 0.15], [0.36, 0.6], ...arc(0.53, 0.62, 0.17, 0.2, 180, 20)], [[0.2, 0.3], [0.62, 0.27]]] },
  { name: "moon", strokes: [arc(0.5, 0.5, 0.3, 0.34, 60, 300), [[0.62, 0.2], [0.48, 0.38], [0.46, 0.58], [0.64, 0.8]]] },
  { name: "fork", strokes: [[[0.5, 0.85], [0.5, 0.45]], [[0.22, 0.15], [0.24, 0.38], [0.5, 0.47], [0.76, 0.38], [0.78, 0.15]], [[0.5, 0.14], [0.5, 0.46]]] },
  { name: "spiral", strokes: [spiral] },
  { name: "kite", strokes: [[[0.5, 0.12], [0.76, 0.4], [0.5, 0.7], [0.24, 0.4], [0.5, 0.12]], [[0.5, 0.7], [0.42, 0.8], [0.56, 0.88]]] },
  { name: "table", strokes: [[[0.24, 0.85], [0.25, 0.2], [0.76, 0.18], [0.77, 0.85]]] },
  { name: "gate", strokes: [[[0.22, 0.85], [0.24, 0.2], [0.77, 0.18], [0.78, 0.85]], [[0.24, 0.52], [0.77, 0.5]]] },
  { name: "wave", strokes: [[[0.12, 0.45], ...arc(0.26, 0.45, 0.13, 0.2, 180, 360), ...arc(0.52, 0.45, 0.13, 0.2, 180, 0), ...arc(0.77, 0.45, 0.12, 0.2, 180, 350)], [[0.2, 0.8], [0.8, 0.78]]] },
  { name: "anchor", strokes: [[[0.5, 0.3], [0.5, 0.85]], arc(0.5, 0.21, 0.09, 0.09, 90, 450), arc(0.5, 0.58, 0.32, 0.28, 0, 180)] },
  { name: "ladder", strokes: [[[0.32, 0.12], [0.3, 0.88]], [[0.68, 0.12], [0.7, 0.88]], [[0.32, 0.35], [0.68, 0.34]], [[0.31, 0.62], [0.69, 0.63]]] },
  { name: "window", strokes: [[[0.25, 0.2], [0.26, 0.84], [0.76, 0.83], [0.75, 0.19], [0.24, 0.2]], [[0.25, 0.5], [0.76, 0.51]]] },
  { name: "bird", strokes: [[[0.1, 0.35], ...arc(0.3, 0.42, 0.2, 0.18, 200, 360), ...arc(0.7, 0.42, 0.2, 0.18, 180, 340)], [[0.5, 0.42], [0.42, 0.7], [0.58, 0.84]]] },
];

/** Look-alikes to begin with: hard enough to tell apart from one example each. */
export const FIRST = ["gate", "table", "ladder", "window", "anchor"].map(name => CHARACTERS.find(each => each.name === name));

/** A random number from -1 to 1 that a seed decides (mulberry32). */
export function dice(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2147483648 - 1;
  };
}

/** Strokes of a made-up character, turned, sheared, stretched, bent and moved: a little, or more if wild is above 1. */
export function sampled(character, seed, wild = 1) {
  const random = dice(seed);
  const [turn, shear] = [0.16 * wild * random(), 0.14 * wild * random()];
  const [wide, high] = [0.76 + 0.12 * wild * random(), 0.76 + 0.12 * wild * random()];
  const [dx, dy, bend, phase] = [0.05 * random(), 0.05 * random(), 0.025 * wild * random(), 3 * random()];
  return character.strokes.map(stroke => {
    const [ex, ey] = [0.015 * random(), 0.015 * random()];
    return stroke.map(([x, y]) => {
      const [u, v] = [(x - 0.5) * wide, (y - 0.5) * high];
      const [s, t] = [u + shear * v + bend * Math.sin(7 * v + phase), v + bend * Math.sin(7 * u + phase)];
      return [
        0.5 + s * Math.cos(turn) - t * Math.sin(turn) + dx + ex,
        0.5 + s * Math.sin(turn) + t * Math.cos(turn) + dy + ey,
      ].map(value => Math.min(0.97, Math.max(0.03, value)));
    });
  });
}
