// The classes that are taught: chips to choose from, and the examples of the chosen one.

import { thumbnail } from "./answers.js";
import { $, element } from "./dom.js";

export const TARGET = "target";
export const MOST_CLASSES = 10;
const HUES = [262, 28, 152, 205, 330, 88, 240, 50, 185, 0];

export const colour = each => `hsl(${each.hue} var(--class-colour))`;

/** Add a class to the state: with a name, or the next letter. */
export function newClass(state, name) {
  const hue = HUES.find(each => !state.classes.some(other => other.hue === each)) ?? 0;
  const letter = "ABCDEFGHIJ".split("").find(each => !state.classes.some(other => other.name === each));
  const made = { name: name ?? letter, hue, examples: [] };
  state.classes.push(made);
  return made;
}

/** Show all classes and the target, and let one be chosen; `on.choose` and `on.changed` hear of it. */
export function showSubjects(state, on) {
  const focused = document.activeElement?.id;
  const radio = (value, label, style, extra) => {
    const id = `subject-${value}`;
    const input = element("input", { type: "radio", name: "subject", id, value, checked: String(state.subject) === String(value), onchange: () => on.choose(value) });
    return element("label", { for: id, class: `subject ${extra ?? ""}`, "data-subject": value, style }, input, ...label);
  };
  const chips = state.classes.map((each, i) => radio(i, [
    each.examples.length ? thumbnail(each.examples[0]) : element("span", { class: "thumb none", "aria-hidden": "true" }, "✎"),
    element("span", { class: "name" }, each.name),
    element("small", {}, String(each.examples.length), element("span", { class: "unseen" }, each.examples.length === 1 ? " example" : " examples")),
  ], { "--colour": colour(each) }));
  const more = state.classes.length < MOST_CLASSES
    ? element("button", { type: "button", id: "new-class", class: "subject new", onclick: () => { newClass(state); on.choose(state.classes.length - 1); } }, "+ class") : null;
  const target = radio(TARGET, [element("span", { class: "thumb none", "aria-hidden": "true" }, "?"), element("span", { class: "name" }, "target")], {}, "target");
  $("subject-list").replaceChildren(...chips, ...(more ? [more] : []), target, ...details(state, on));
  if (focused) $(focused)?.focus();
}

/** The chosen class: its name and its examples, which can be removed. */
function details(state, on) {
  const each = state.classes[state.subject];
  if (!each) return [];
  const name = element("input", { id: "class-name", value: each.name, maxlength: 24, "aria-label": "Name of this class", onchange: event => {
    each.name = event.target.value.trim() || each.name;
    on.changed();
  } });
  const examples = each.examples.map((example, i) => element("button", { type: "button", class: "example", "aria-label": `Remove example ${i + 1} of ${each.name}`, title: "Remove", onclick: () => {
    each.examples.splice(i, 1);
    on.changed();
  } }, thumbnail(example)));
  const remove = state.classes.length > 2 ? element("button", { type: "button", class: "link", onclick: () => {
    state.classes.splice(state.subject, 1);
    state.kept.forEach(target => (target.meant = target.meant === each ? null : target.meant));
    on.choose(TARGET);
    on.changed();
  } }, "Remove class") : null;
  return [element("div", { class: "details" }, name, ...examples, remove)];
}
