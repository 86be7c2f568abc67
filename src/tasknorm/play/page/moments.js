// The paper's moments from instance moments, as tasknorm's moments.py has them: {mean, variance}, a number each channel.

const sum = numbers => numbers.reduce((a, b) => a + b, 0);

/** Moments of a set of examples, by the law of total variance (section 2.2). */
export function batch(rows) {
  const mean = rows[0].mean.map((_, c) => sum(rows.map(row => row.mean[c])) / rows.length);
  const variance = mean.map((mu, c) => sum(rows.map(row => row.variance[c] + (row.mean[c] - mu) ** 2)) / rows.length);
  return { mean, variance };
}

/** Moments of an example over groups of channels; over all of them if there is one group (section 3.3, A.2). */
export function grouped({ mean, variance }, groups) {
  const size = mean.length / groups;
  const made = { mean: [], variance: [] };
  for (let g = 0; g < groups; g++) {
    const part = mean.slice(g * size, (g + 1) * size).map((mu, i) => ({ mean: [mu], variance: [variance[g * size + i]] }));
    const one = batch(part);
    for (let i = 0; i < size; i++) for (const key of ["mean", "variance"]) made[key].push(one[key][0]);
  }
  return made;
}

/** Two sets of moments, pooled with weights alpha and 1 - alpha (equations 10 and 11). */
export function pooled(first, second, alpha) {
  const weight = c => (Array.isArray(alpha) ? alpha[c] : alpha);
  return {
    mean: first.mean.map((mu, c) => weight(c) * mu + (1 - weight(c)) * second.mean[c]),
    variance: first.variance.map((v, c) => {
      const a = weight(c);
      return a * v + (1 - a) * second.variance[c] + a * (1 - a) * (first.mean[c] - second.mean[c]) ** 2;
    }),
  };
}

const sigmoid = x => 1 / (1 + Math.exp(-x));

/** How much a context of this size counts in a layer of TaskNorm (section 4.2); null for other norms. */
export function alphaOf(layer, size) {
  if (!layer.alpha) return null;
  const { scale, offset } = layer.alpha;
  const one = (s, o) => sigmoid((s ?? 0) * size + o);
  return Array.isArray(offset) ? offset.map((o, c) => one(Array.isArray(scale) ? scale[c] : scale, o)) : one(scale, offset);
}

/** What a norm normalises a target with. */
export function used(norm, layer, { context, own, set, size }) {
  const layerMoments = () => grouped(own, 1);
  switch (norm) {
    case "TaskNorm-I": return pooled(context, own, alphaOf(layer, size));
    case "TaskNorm-L": return pooled(context, layerMoments(), alphaOf(layer, size));
    case "TaskNorm-r": return pooled(context, layer.running, alphaOf(layer, size));
    case "MetaBN": return context;
    case "RN": return pooled(context, own, size / (size + 1));
    case "TBN": return set;
    case "IN": return own;
    case "LN": return layerMoments();
    case "GN": return grouped(own, layer.groups);
    default: return layer.running; // CBN, BRN, Baseline
  }
}
