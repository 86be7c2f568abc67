// Elements in one line.

export const $ = id => document.getElementById(id);

/** An element with attributes and children; a child that is a string is text, an attribute that starts with "on" a listener. */
export function element(name, attributes = {}, ...children) {
  const [, tag] = name.split(":");
  const made = tag ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "style") for (const [property, set] of Object.entries(value)) made.style.setProperty(property, set);
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat().filter(child => child !== null && child !== undefined));
  return made;
}

export const svg = (name, ...rest) => element(`svg:${name}`, ...rest);

export const percent = share => `${Math.round(100 * share)} %`;
