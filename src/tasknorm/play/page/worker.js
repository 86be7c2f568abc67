// The learner's ONNX graphs in onnxruntime-web, in a thread of their own: the pen never waits for the net.

import { rowsOf } from "./learner.js";

const MEAN = [0.485, 0.456, 0.406];
const DEVIATION = [0.229, 0.224, 0.225];

const SCALINGS = {
  unit: value => value / 255,
  signed: value => value / 127.5 - 1,
  standard: (value, channel) => (value / 255 - MEAN[channel]) / DEVIATION[channel],
  centred: value => (value - 127) / 128,
};

/** Images as floats (images, channels, size, size) for the net. */
function scaled(images, { scale, size }) {
  const count = images[0].length;
  const made = new Float32Array(images.length * count);
  const area = size * size;
  images.forEach((image, i) => {
    for (let k = 0; k < count; k++) made[i * count + k] = SCALINGS[scale](image[k], Math.floor(k / area));
  });
  return made;
}

/** onnxruntime-web, which computes in this browser. */
class InBrowser {
  constructor(ort, about) {
    [this.ort, this.about, this.sessions] = [ort, about, new Map()];
  }

  static async started(about) {
    const ort = await import(about.runtime);
    ort.env.wasm.numThreads = 1;
    ort.env.wasm.wasmPaths = new URL(".", about.runtime).href;
    const made = new InBrowser(ort, about);
    await Promise.all(about.models.map(model => made.session(model)));
    return made;
  }

  async session(model) {
    if (!this.sessions.has(model.norm))
      this.sessions.set(model.norm, this.ort.InferenceSession.create(model.graph));
    return this.sessions.get(model.norm);
  }

  async run(model, task, withMoments) {
    const session = await this.session(model);
    const { size, channels } = this.about.preparation;
    const { Tensor } = this.ort;
    const images = list => new Tensor("float32", scaled(list, this.about.preparation), [list.length, channels, size, size]);
    const labels = new Float32Array(task.labels.length * task.way);
    task.labels.forEach((label, i) => (labels[i * task.way + label] = 1));
    const outputs = await session.run(
      {
        context_images: images(task.context),
        labels: new Tensor("float32", labels, [task.labels.length, task.way]),
        target_images: images(task.targets),
      },
      withMoments ? session.outputNames : ["logits"],
    );
    const rows = task.context.length + task.targets.length;
    return {
      logits: task.targets.map((_, i) => Array.from(outputs.logits.data.slice(i * task.way, (i + 1) * task.way))),
      moments: withMoments
        ? model.layers.map(layer => rowsOf(outputs[`moments ${layer.name}`].data, rows, layer.channels))
        : null,
    };
  }
}

let learner = null;

onmessage = async ({ data: { id, about, model, task, withMoments } }) => {
  try {
    if (about) learner = await InBrowser.started(about);
    postMessage({ id, found: about ? null : await learner.run(model, task, withMoments) });
  } catch (error) {
    postMessage({ id, error: error.message ?? String(error) });
  }
};
