// The answers: each norm side by side, the kept targets, and who peeks at its neighbours.

import { $, element, percent } from "./dom.js";

const first = list => list.reduce((best, value, i) => (value > list[best] ? i : best), 0);

/** Columns of the norms for the classes that have examples. */
export function showNorms(models, classes, colour) {
  $("norms").replaceChildren(...models.map(model => element("article", { class: "norm", "data-norm": model.norm, "aria-label": model.norm },
    element("h3", {}, model.norm, element("small", { class: model.transductive ? "peeks" : "" }, model.transductive ? "peeks" : "does not peek")),
    element("div", { class: "rows" }, classes.map((each, i) => element("div", { class: "row", "data-class": i, style: { "--colour": colour(each), "--p": 0 } },
      thumbnail(each.examples[0]), element("span", { class: "name" }, each.name), element("b", {}, "")))))));
}

export function thumbnail(picture) {
  const made = element("canvas", { width: 48, height: 48, class: picture.kind === "photo" ? "thumb photo" : "thumb", "aria-hidden": "true" });
  const context = made.getContext("2d");
  context.drawImage(picture.canvas, 0, 0, 48, 48);
  if (picture.kind === "ink") {
    context.globalCompositeOperation = "source-in"; // the ink of today's theme, whatever it was drawn in
    context.fillStyle = getComputedStyle(document.body).color;
    context.fillRect(0, 0, 48, 48);
  }
  return made;
}

/** The probabilities of one target by norm; null clears them. */
export function lightUp(models, found) {
  for (const model of models) {
    const probabilities = found?.[model.norm];
    const rows = document.querySelectorAll(`[data-norm="${model.norm}"] .row`);
    rows.forEach((row, i) => {
      const p = probabilities ? probabilities[i] : 0;
      row.style.setProperty("--p", p.toFixed(4));
      row.dataset.probability = probabilities ? p : "";
      row.classList.toggle("top", Boolean(probabilities) && i === first(probabilities));
      row.querySelector("b").textContent = probabilities ? percent(p) : "";
    });
  }
}

/** A sentence for those who cannot see the bars. */
export function spoken(models, found, classes) {
  return models.map(({ norm }) => {
    const best = first(found[norm]);
    return `${norm}: ${classes[best].name}, ${percent(found[norm][best])}`;
  }).join(". ");
}

/** The kept targets, a row each: what was meant, and what each norm says in the chosen way of arriving. */
export function showKept({ models, classes, colour, targets, results, live, on }) {
  const head = element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "target"), element("th", { scope: "col" }, "meant"),
    models.map(({ norm }) => element("th", { scope: "col" }, norm)), element("th", {}, element("span", { class: "unseen" }, "remove"))));
  const rows = targets.map((target, i) => {
    const isLive = i === live;
    const options = [element("option", { value: "" }, "?"), ...classes.map((each, k) => element("option", { value: k, selected: target.meant === each }, each.name))];
    const cells = models.map(({ norm }) => {
      const found = results?.[norm];
      if (!found?.now[i]) return element("td", {}, "…");
      const best = first(found.now[i]);
      const changed = best !== first(found.alone[i]);
      const right = target.meant ? (classes[best] === target.meant ? "right" : "wrong") : "";
      return element("td", { class: changed ? "changed" : "", "data-answer": best, "data-probability": found.now[i][best] },
        element("span", { class: `answer ${right}`, style: { "--colour": colour(classes[best]) } }, classes[best].name),
        element("small", {}, ` ${percent(found.now[i][best])}`), changed ? element("em", {}, " changed") : null);
    });
    return element("tr", { class: isLive ? "live" : "", "data-target": i },
      element("th", { scope: "row" }, thumbnail(target.picture), isLive ? element("small", {}, "now") : null),
      element("td", {}, element("select", { "aria-label": `Target ${i + 1} is meant to be`, "data-focus": `meant-${i}`, onchange: event => on.meant(i, event.target.value) }, options)),
      cells,
      element("td", {}, isLive ? null : element("button", { type: "button", class: "remove", "aria-label": `Remove target ${i + 1}`, onclick: () => on.remove(i) }, "×")));
  });
  const focused = document.activeElement?.dataset?.focus;
  $("kept").replaceChildren(head, element("tbody", {}, rows.length ? rows : element("tr", {}, element("td", { colspan: models.length + 3, class: "idle" }, "No target yet. Choose “target”, draw one, and keep it."))));
  if (focused) document.querySelector(`[data-focus="${focused}"]`)?.focus();
}

/** How far each norm's answers moved from those of one target at a time. */
export function showVerdict(models, targets, results, how) {
  const list = $("verdict");
  const ready = targets.length > 1 && how !== "example" && models.every(({ norm }) => results?.[norm]?.now.length === targets.length && !results[norm].now.includes(undefined));
  if (!ready) {
    const hint = targets.length < 2 ? "With two targets or more, this says how much each norm peeks." : how === "example" ? "One at a time, nobody has neighbours. Switch to see who peeks." : "";
    list.replaceChildren(element("li", { class: "idle" }, hint));
    return;
  }
  list.replaceChildren(...models.map(({ norm }) => {
    const { now, alone } = results[norm];
    const changed = now.filter((p, i) => first(p) !== first(alone[i])).length;
    const moved = Math.max(...now.flatMap((p, i) => p.map((value, k) => Math.abs(value - alone[i][k]))));
    const points = 100 * moved < 0.05 ? "0" : (100 * moved).toFixed(100 * moved < 10 ? 1 : 0);
    return element("li", { class: moved > 0.0005 ? "moved" : "still", "data-norm": norm, "data-changed": changed, "data-moved": moved },
      element("b", {}, norm), `: ${changed} of ${targets.length} answers differ from those one at a time, probabilities by up to ${points} points`);
  }));
}
