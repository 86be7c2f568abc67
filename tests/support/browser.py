"""What a reader of a page would see, measured in Chromium."""

from __future__ import annotations

# Texts and boxes that are cut off, hidden by others or outside of the screen, and colours that are hard to see.
MEASURE = r"""
() => {
  const wrong = [];
  const shown = (e) => e.getClientRects().length > 0 && getComputedStyle(e).visibility === "visible";
  const scrolls = (e) => e.closest(".scroll, .norms, .status");
  const width = document.documentElement.clientWidth;
  const named = (e) => `${e.tagName}.${e.getAttribute("class") ?? ""} "${e.textContent.trim().slice(0, 40)}"`;

  for (const e of document.querySelectorAll("body *:not(script)")) {
    if (!shown(e) || scrolls(e) || e.closest("svg") && e.tagName !== "svg") continue;
    const box = e.getBoundingClientRect();
    if (box.right > width + 1 || box.left < -1) wrong.push(`outside the screen: ${named(e)}`);
    if (e.tagName !== "svg" && getComputedStyle(e).display !== "inline" && e.scrollWidth > e.clientWidth + 1)
      wrong.push(`wider than its box: ${named(e)}`);
  }
  for (const svg of document.querySelectorAll("svg")) {
    if (!shown(svg)) continue;
    const frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")].filter((t) => t.textContent.trim() && shown(t));
    const boxes = texts.map((t) => t.getBoundingClientRect());
    texts.forEach((text, i) => {
      const a = boxes[i];
      if (a.left < frame.left - 1 || a.right > frame.right + 1 || a.top < frame.top - 1 || a.bottom > frame.bottom + 1)
        wrong.push(`outside its picture: ${named(text)}`);
      const size = parseFloat(getComputedStyle(text).fontSize) * frame.width / svg.viewBox.baseVal.width;
      if (size < (svg.closest(".picture") ? 10.9 : 8.5)) wrong.push(`too small: ${named(text)} ${size}`);
      if (!svg.closest(".picture")) return;
      for (let j = 0; j < i; j++) {
        const b = boxes[j];
        const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (across > 1 && down > 4) wrong.push(`hide each other: ${named(text)} and ${named(texts[j])}`);
      }
    });
  }

  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = (colour) => {
    const [r, g, b] = rgba(colour).map((v) => (v / 255 <= 0.04045 ? v / 3294.6 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (rgba(colour)[3] > 0) return colour;
    }
    return "white";
  };
  const shade = document.createElement("p");
  shade.style.color = "var(--shade)";
  document.body.append(shade);
  const together = getComputedStyle(shade).color;
  shade.remove();
  for (const e of document.querySelectorAll("body *:not(script)")) {
    if (!shown(e)) continue;
    const style = getComputedStyle(e);
    if (e.matches("svg text")) {
      const backs = e.closest(".picture") ? [behind(e), together] : [behind(e)];
      if (backs.some((back) => contrast(style.fill, back) < 4.5)) wrong.push(`faint: ${named(e)} ${style.fill}`);
    } else if (e.matches("svg .solid, svg .line")) {
      const colour = style.getPropertyValue("fill") !== "none" && !e.matches(".hollow") ? style.fill : style.stroke;
      if (contrast(colour, behind(e)) < 3) wrong.push(`faint: ${e.outerHTML.slice(0, 90)} ${colour}`);
    } else if (!e.closest("svg") && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) {
      if (contrast(style.color, behind(e)) < 4.5) wrong.push(`faint: ${named(e)} ${style.color}`);
    }
  }
  return wrong;
}
"""
