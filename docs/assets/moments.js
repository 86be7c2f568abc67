// The figure of all norms: what feeds the moments of the plane that the reader chose. The table was measured on the
// norms themselves; this file only colours. Nothing is loaded.
(() => {
  "use strict";
  const CONTEXT = 3, IMAGES = 6, CHANNELS = 4;
  const kindOf = (image) => (image < CONTEXT ? "context" : "target");

  const role = (image, channel, other, of) => {
    if (other === image) return of === channel ? "itself" : of >> 1 === channel >> 1 ? "group" : "layer";
    if (of !== channel) return null;
    return other < CONTEXT ? "context" : "targets";
  };

  const words = (kind, roles) => {
    const inner = "layer" in roles ? "itself, all channels" : "group" in roles ? "itself, its group" : "itself";
    const share = (name) => roles[name] ?? 0;
    const parts = [
      [inner, share("itself") + share("group") + 2 * share("layer")],
      [kind === "context" ? "rest of the context" : "context", share("context") * (kind === "context" ? CONTEXT - 1 : CONTEXT)],
      ["other targets", 2 * share("targets")],
      ["running moments", share("running")],
    ];
    return parts.filter(([, part]) => part).map(([name, part]) => `${name} ${Math.round(100 * part)} %`);
  };

  const opacity = (weight) => (weight ? String(+(0.2 + 0.8 * weight).toFixed(1)) : "0");

  const begin = (figure) => {
    const table = JSON.parse(figure.dataset.table);
    const form = figure.querySelector("form");

    const draw = () => {
      const { image: at, channel: of, mode } = Object.fromEntries(new FormData(form));
      const image = +at, channel = +of, kind = kindOf(image);
      for (const svg of figure.querySelectorAll("[data-norm]")) {
        const roles = table[svg.dataset.norm][mode][kind];
        const most = Math.max(...Object.values(roles));
        for (const plane of svg.querySelectorAll("[data-plane]")) {
          const [other, own] = plane.dataset.plane.split(",");
          const name = other === "running" ? (+own === channel ? "running" : null) : role(image, channel, +other, +own);
          plane.querySelector(".part").setAttribute("fill-opacity", opacity((roles[name] ?? 0) / most));
          plane.querySelector(".frame").classList.toggle("chosen", other === at && own === of);
        }
        const said = words(kind, roles);
        svg.querySelectorAll(".said").forEach((line, i) => { line.textContent = said[i] ?? " "; });
        const peeks = mode === "test" && "targets" in roles;
        svg.querySelector(".badge").setAttribute("visibility", peeks ? "visible" : "hidden");
        svg.setAttribute("aria-label", `${svg.dataset.norm}${peeks ? " (peeks)" : ""}: ${said.join(", ")}`);
      }
      figure.querySelector(".spoken").textContent =
        `${kind === "context" ? "Context image" : "Target"} ${(image % CONTEXT) + 1}, channel ${channel + 1}, at meta-${mode}.`;
    };

    const choose = (image, channel) => {
      form.elements.image.value = String((image + IMAGES) % IMAGES);
      form.elements.channel.value = String((channel + CHANNELS) % CHANNELS);
      draw();
    };

    form.addEventListener("input", draw);
    form.addEventListener("submit", (event) => event.preventDefault());
    figure.querySelector(".panels").addEventListener("click", (event) => {
      const plane = event.target.closest("[data-plane]");
      if (!plane) return;
      const [image, channel] = plane.dataset.plane.split(",");
      choose(image === "running" ? +form.elements.image.value : +image, +channel);
    });
    draw();
  };

  const beginAll = () => document.querySelectorAll(".moments").forEach(begin);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", beginAll);
  else beginAll();
})();
