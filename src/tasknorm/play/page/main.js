// The page: what is drawn, what was learned from it, and what each norm says.

import { lightUp, showKept, showNorms, showVerdict, spoken } from "./answers.js";
import { $, element } from "./dom.js";
import { showInside } from "./inside.js";
import { arrivals, softmax, startedLearner } from "./learner.js";
import { Pad } from "./pad.js";
import { watchPhotos } from "./photos.js";
import { preparedInk, preparedPhoto } from "./pictures.js";
import { CHARACTERS, FIRST, sampled } from "./samples.js";
import { TARGET, colour, newClass, showSubjects } from "./teaching.js";

const MOST_EXAMPLES = 20;
const MOST_KEPT = 30;
const WILD = 1.7; // how much the first targets differ from their examples

const state = { classes: [], kept: [], subject: TARGET, arrival: "all", norm: null, layer: 0, seed: 31, version: 0, results: null, chosen: null };
let about, learner, pad, photo = null; // photo: a picture that waits on the pad in place of strokes
let running = false, wanted = null;

const known = () => state.classes.filter(each => each.examples.length);
const say = text => ($("message").textContent = text);

// What is on the pad

function onPad() {
  if (photo) return photo;
  if (pad.empty) return null;
  const pixels = preparedInk(pad.image, about.preparation);
  return pixels && { kind: "ink", pixels, canvas: $("pad") };
}

function kept(picture) {
  const canvas = element("canvas", { width: 160, height: 160 });
  canvas.getContext("2d").drawImage(picture.canvas, 0, 0, 160, 160);
  return { ...picture, canvas };
}

function clearPad() {
  photo = null;
  pad.show([]);
}

// Learning: one computation at a time, of the newest wish

function learn(settled) {
  wanted = { settled: settled || (wanted?.settled ?? false) };
  document.body.dataset.state = "busy";
  if (!running) compute();
}

async function compute() {
  running = true;
  try {
    while (wanted) {
      const { settled } = wanted;
      wanted = null;
      await computeOnce(settled);
      await new Promise(requestAnimationFrame);
    }
    document.body.dataset.state = "ready";
  } catch (error) {
    say(`The learner failed: ${error.message}`);
    document.body.dataset.state = "failed";
  } finally {
    running = false;
  }
}

function targets() {
  const live = state.subject === TARGET ? onPad() : null;
  const all = state.kept.map(({ picture, meant }) => ({ picture, meant }));
  if (live) all.push({ picture: live, meant: null });
  return { all, live: live ? all.length - 1 : -1 };
}

async function computeOnce(settled) {
  const { version } = state;
  const classes = known();
  const { all, live } = targets();
  const shown = live >= 0 ? live : all.findIndex((_, i) => state.kept[i] === state.chosen);
  if (classes.length < 2 || !all.length) {
    state.results = null;
    lightUp(about.models, null);
    glow(null);
    showTargets(all, live, classes);
    showInside(model(), model().layers[state.layer], null);
    return;
  }
  const task = {
    way: classes.length,
    context: classes.flatMap(each => each.examples.map(({ pixels }) => pixels)),
    labels: classes.flatMap((each, i) => each.examples.map(() => i)),
  };
  const results = Object.fromEntries(about.models.map(({ norm }) => [norm, { now: new Array(all.length).fill(undefined), alone: [] }]));
  let seen = null;
  const answer = async (each, set, into, watch) => {
    const found = await learner.run(each, { ...task, targets: set.map(i => all[i].picture.pixels) }, watch);
    set.forEach((i, k) => (into[i] = softmax(found.logits[k])));
    if (watch) seen = insideOf(found.moments[state.layer], task.context.length, set.indexOf(shown));
  };
  const sets = arrivals(state.arrival, all);
  const first = sets.find(set => set.includes(shown));
  if (first) for (const each of about.models) await answer(each, first, results[each.norm].now, each.norm === state.norm);
  const current = first ? Object.fromEntries(about.models.map(({ norm }) => [norm, results[norm].now[shown]])) : null;
  if (version !== state.version) return; // the classes are others by now, and a newer wish waits
  lightUp(about.models, current);
  glow(current);
  showInside(model(), model().layers[state.layer], seen);
  if (!settled) return;
  // The rest may take a while, and gives way to the pen.
  for (const each of about.models) {
    const { now } = results[each.norm];
    const alone = state.arrival === "example" ? now : new Array(all.length).fill(undefined);
    results[each.norm].alone = alone;
    for (const [list, into] of [[sets, now], [arrivals("example", all), alone]])
      for (const set of list) {
        if (into[set[0]]) continue;
        await answer(each, set, into, false);
        if (wanted) {
          wanted.settled = true;
          return;
        }
      }
  }
  state.results = results;
  showTargets(all, live, classes);
  $("spoken").textContent = current ? spoken(about.models, current, classes) : "";
}

function insideOf(rows, size, place) {
  return { context: rows.slice(0, size), set: rows.slice(size), own: rows[size + place] };
}

const model = () => about.models.find(({ norm }) => norm === state.norm);

/** Let the classes themselves light up, by the first norm. */
function glow(current) {
  const probabilities = current?.[about.models[0].norm];
  let place = 0;
  state.classes.forEach((each, i) => {
    const share = each.examples.length && probabilities ? probabilities[place] : 0;
    if (each.examples.length) place += 1;
    document.querySelector(`[data-subject="${i}"]`)?.style.setProperty("--p", share.toFixed(3));
  });
}

function showTargets(all, live, classes) {
  const on = {
    meant: (i, value) => {
      if (state.kept[i]) state.kept[i].meant = value === "" ? null : classes[Number(value)];
      learn(true);
    },
    remove: i => {
      state.kept.splice(i, 1);
      learn(true);
      $("arrival").querySelector("input:checked").focus();
    },
  };
  showKept({ models: about.models, classes, colour, targets: all, results: state.results, live, on });
  showVerdict(about.models, all, state.results, state.arrival);
}

// Classes

function choose(subject) {
  state.subject = subject === TARGET ? TARGET : Number(subject);
  clearPad();
  changed();
}

function changed() {
  state.version += 1;
  showSubjects(state, { choose, changed });
  showNorms(about.models, known(), colour);
  const isTarget = state.subject === TARGET;
  $("add").textContent = isTarget ? "Keep as neighbour" : "Add example";
  const missing = 2 - known().length;
  $("hint").textContent = isTarget
    ? (missing > 0 ? "teach two classes first" : "draw one of them again")
    : `draw “${state.classes[state.subject].name}”`;
  showTools();
  learn(true);
}

function showTools() {
  const nothing = !onPad();
  $("add").disabled = nothing;
  $("undo").disabled = pad.empty;
  $("clear").disabled = nothing;
  $("hint").hidden = !nothing;
}

// What the buttons do

function add(picture = onPad()) {
  if (!picture) return;
  const each = state.classes[state.subject];
  const full = each ? each.examples.length >= MOST_EXAMPLES : state.kept.length >= MOST_KEPT;
  if (full) {
    say(each ? `${each.name} has ${MOST_EXAMPLES} examples, which is the most; remove one first.` : `${MOST_KEPT} targets are kept, which is the most; remove one first.`);
    return;
  }
  if (each) {
    each.examples.push(kept(picture));
    say(`${each.name} now has ${each.examples.length} ${each.examples.length === 1 ? "example" : "examples"}.`);
  } else {
    const target = { picture: kept(picture), meant: null };
    state.kept.push(target);
    state.chosen = target;
    say(`${state.kept.length} ${state.kept.length === 1 ? "target is" : "targets are"} kept.`);
  }
  clearPad();
  changed();
}

/** Draw a made-up character on the pad: of the chosen class, or for a target of a random one. */
function drawSample() {
  const pool = state.subject === TARGET ? known() : [state.classes[state.subject]];
  if (!pool.length) return say("Teach a class first, then a sample of it can be drawn.");
  const each = pool[state.seed % pool.length];
  const others = CHARACTERS.filter(character => !state.classes.some(other => other.character === character));
  each.character ??= CHARACTERS.find(character => character.name === each.name) ?? others[0];
  photo = null;
  pad.show(sampled(each.character, (state.seed += 1)));
  say(`A sample of ${each.character.name} is on the pad.`);
}

function pictureOf(strokes) {
  const scratch = element("canvas", { width: 420, height: 420 });
  const made = new Pad(scratch, () => {});
  made.show(strokes);
  return { kind: "ink", pixels: preparedInk(made.image, about.preparation), canvas: scratch };
}

function startWithSamples() {
  [state.classes, state.kept, state.chosen] = [[], [], null];
  for (const character of FIRST) {
    const each = newClass(state, character.name);
    each.character = character;
    each.examples.push(kept(pictureOf(sampled(character, (state.seed += 1)))));
    for (let i = 0; i < 2; i++)
      state.kept.push({ picture: kept(pictureOf(sampled(character, (state.seed += 1), WILD))), meant: each });
  }
  state.chosen = state.kept.at(-1) ?? null;
  choose(TARGET);
}

function startEmpty() {
  [state.classes, state.kept, state.chosen] = [[], [], null];
  newClass(state);
  newClass(state);
  choose(0);
  say("Nothing is taught yet. Draw an example of A.");
}

function takePhoto(canvas, name) {
  const image = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const pixels = preparedPhoto(image, about.preparation);
  if (!pixels) return say(`${name} shows no drawing: all of it has one tone. Use a picture of dark strokes on light paper.`);
  const picture = { kind: "photo", pixels, canvas };
  if (state.subject !== TARGET) return add(picture);
  pad.show([]);
  photo = picture;
  const { width, height } = $("pad");
  pad.ink.drawImage(canvas, 0, 0, width, height);
  showTools();
  say(`${name} is the target now.`);
  return learn(true);
}

function watch() {
  $("add").addEventListener("click", () => add());
  $("sample").addEventListener("click", drawSample);
  $("undo").addEventListener("click", () => pad.undo());
  $("clear").addEventListener("click", clearPad);
  $("start-empty").addEventListener("click", startEmpty);
  $("start-samples").addEventListener("click", startWithSamples);
  $("pad").addEventListener("keydown", event => {
    const action = { Enter: () => add(), Backspace: () => pad.undo(), Escape: clearPad, s: drawSample }[event.key];
    if (action && !event.ctrlKey && !event.metaKey) [event.preventDefault(), action()];
  });
  $("arrival").addEventListener("change", event => {
    state.arrival = event.target.value;
    learn(true);
  });
  watchPhotos(takePhoto, say);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    if (!photo) pad.draw();
    changed();
  });
  new ResizeObserver(() => learn(true)).observe($("plot"));
}

function showChoices() {
  const radio = (name, value, label, checked, onchange) => element("label", {}, element("input", { type: "radio", name, value, checked, onchange }), " ", element("span", {}, label));
  $("inside-norm").append(...about.models.map(({ norm }) => radio("inside", norm, norm, norm === state.norm, () => {
    state.norm = norm;
    learn(true);
  })));
  $("layers").append(...model().layers.map((layer, i) => radio("layer", i, layer.title, i === state.layer, () => {
    state.layer = i;
    learn(true);
  })));
}

async function start() {
  try {
    about = await (await fetch("models.json")).json();
    learner = await startedLearner(about);
  } catch (error) {
    say(`The page could not start: ${error.message}`);
    document.body.dataset.state = "failed";
    return;
  }
  [state.norm, state.layer] = [about.models[0].norm, about.models[0].layers.length > 1 ? 1 : 0];
  pad = new Pad($("pad"), settled => {
    if (photo) [photo, pad.strokes] = [null, pad.strokes.slice(-1)];
    if (settled) showTools();
    $("hint").hidden = true;
    if (state.subject === TARGET) learn(settled);
  });
  $("about").textContent = `${about.words} It computes ${learner.where}; no picture leaves this machine.`;
  document.documentElement.dataset.where = learner.where;
  showChoices();
  watch();
  if (about.drawings) startWithSamples();
  else startEmpty();
}

start();
