// The drawing pad: strokes of a pointer, a pen or a finger, as wide as those of Omniglot's drawers.

const PEN = 5 / 105; // of the pad's side

export class Pad {
  /** @param onChange called with true at the end of a stroke, with false while the pen moves */
  constructor(canvas, onChange) {
    this.canvas = canvas;
    this.ink = canvas.getContext("2d", { willReadFrequently: true });
    this.onChange = onChange;
    this.strokes = [];
    this.pen = null;
    canvas.addEventListener("pointerdown", event => this.down(event));
    canvas.addEventListener("pointermove", event => this.move(event));
    for (const name of ["pointerup", "pointercancel", "lostpointercapture"])
      canvas.addEventListener(name, event => this.up(event));
  }

  get empty() {
    return this.strokes.length === 0;
  }

  get image() {
    return this.ink.getImageData(0, 0, this.canvas.width, this.canvas.height);
  }

  down(event) {
    if (this.pen !== null || (event.pointerType === "mouse" && event.button !== 0)) return;
    event.preventDefault();
    this.canvas.focus({ preventScroll: true });
    this.pen = event.pointerId;
    this.canvas.setPointerCapture(event.pointerId);
    this.strokes.push([this.place(event)]);
    this.draw();
    this.onChange(false);
  }

  move(event) {
    if (event.pointerId !== this.pen) return;
    const all = event.getCoalescedEvents ? event.getCoalescedEvents() : [];
    for (const each of all.length ? all : [event]) this.strokes.at(-1).push(this.place(each));
    this.draw();
    this.onChange(false);
  }

  up(event) {
    if (event.pointerId !== this.pen) return;
    this.pen = null;
    this.onChange(true);
  }

  undo() {
    this.strokes.pop();
    this.draw();
    this.onChange(true);
  }

  show(strokes) {
    [this.strokes, this.pen] = [strokes, null];
    this.draw();
    this.onChange(true);
  }

  place(event) {
    const box = this.canvas.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  }

  draw() {
    const { ink, canvas } = this;
    ink.clearRect(0, 0, canvas.width, canvas.height);
    ink.strokeStyle = getComputedStyle(canvas).color;
    ink.lineWidth = PEN * canvas.width;
    ink.lineCap = ink.lineJoin = "round";
    for (const stroke of this.strokes) {
      ink.beginPath();
      stroke.forEach(([x, y], i) => ink[i ? "lineTo" : "moveTo"](x * canvas.width, y * canvas.height));
      if (stroke.length === 1) ink.lineTo(stroke[0][0] * canvas.width, stroke[0][1] * canvas.height + 0.01);
      ink.stroke();
    }
  }
}
