// The learner: (context images, one-hot labels, target images) -> logits, in this browser or by the server at home.

export function softmax(logits) {
  const largest = Math.max(...logits);
  const powers = logits.map(value => Math.exp(value - largest));
  const total = powers.reduce((a, b) => a + b, 0);
  return powers.map(value => value / total);
}

/** A table (2, rows, channels) of instance moments as rows of {mean, variance}. */
export function rowsOf(numbers, rows, channels) {
  const part = (what, row) => Array.from(numbers.slice((what * rows + row) * channels, (what * rows + row + 1) * channels));
  return Array.from({ length: rows }, (_, row) => ({ mean: part(0, row), variance: part(1, row) }));
}

/** onnxruntime-web in a thread of its own (see worker.js), which computes in this browser. */
class InBrowser {
  constructor(about) {
    const absolute = path => new URL(path, document.baseURI).href;
    this.models = about.models.map(model => ({ ...model, graph: absolute(model.graph) }));
    this.about = { ...about, runtime: absolute(about.runtime), models: this.models };
    this.where = "in this browser";
    this.waiting = new Map();
    this.worker = new Worker(new URL("worker.js", document.baseURI), { type: "module" });
    this.worker.onmessage = ({ data: { id, found, error } }) => {
      const { resolve, reject } = this.waiting.get(id);
      this.waiting.delete(id);
      if (error === undefined) resolve(found);
      else reject(new Error(error));
    };
    this.worker.onerror = event => {
      for (const { reject } of this.waiting.values()) reject(new Error(event.message ?? "the worker stopped"));
      this.waiting.clear();
    };
  }

  static async started(about) {
    const made = new InBrowser(about);
    await made.ask({ about: made.about });
    return made;
  }

  ask(question) {
    const id = (this.last = (this.last ?? 0) + 1);
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.worker.postMessage({ ...question, id });
    });
  }

  run(model, task, withMoments) {
    return this.ask({ model: this.models.find(({ norm }) => norm === model.norm), task, withMoments });
  }
}

/** The server that brought the page, on this very machine. */
class AtHome {
  constructor(about) {
    this.about = about;
    this.where = "on this machine, by Python";
  }

  async run(model, task, withMoments) {
    const body = {
      norm: model.norm,
      way: task.way,
      labels: task.labels,
      context: encoded(task.context),
      targets: encoded(task.targets),
      moments: withMoments,
    };
    const answer = await fetch(new URL(this.about.endpoint, document.baseURI), {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    const found = await answer.json();
    if (!answer.ok) throw new Error(found.error);
    const rows = task.context.length + task.targets.length;
    return {
      logits: found.logits,
      moments: found.moments && found.moments.map((table, i) => rowsOf(table, rows, model.layers[i].channels)),
    };
  }
}

function encoded(images) {
  let text = "";
  for (const image of images) for (const value of image) text += String.fromCharCode(value);
  return btoa(text);
}

/** The learner where it can be had: in the browser if its runtime is there, else at home. */
export async function startedLearner(about) {
  if (about.runtime) {
    try {
      return await InBrowser.started(about);
    } catch (error) {
      if (!about.endpoint) throw error;
    }
  }
  if (!about.endpoint) throw new Error("This folder holds no onnxruntime-web, and no server computes for it. Write it again after tasknorm play --fetch-runtime.");
  return new AtHome(about);
}

/** Which targets pass the net together: places in the list of targets. */
export function arrivals(how, targets) {
  const places = targets.map((_, i) => i);
  if (how === "all") return places.length ? [places] : [];
  if (how === "example") return places.map(i => [i]);
  const byClass = new Map();
  places.forEach(i => {
    const key = targets[i].meant ?? `alone ${i}`;
    byClass.set(key, [...(byClass.get(key) ?? []), i]);
  });
  return [...byClass.values()];
}
