// A picture for the net: drawings and photos as bytes (channels, size, size), as the learner was trained.

const INK = 64; // a pixel of a drawing from this darkness on is ink
const FIT = 22 / 28; // a drawing's longer side, of the net's image
const FLAT = 24; // a photo whose tones differ by less than this shows no drawing

const triangle = x => Math.max(0, 1 - Math.abs(x));
const sinc = x => (x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x));
const lanczos = x => (Math.abs(x) < 3 ? sinc(x) * sinc(x / 3) : 0);
const byte = x => Math.min(255, Math.max(0, Math.round(x)));

/**
 * Which pixels make each new one, and how much each counts: the filter is as wide as the step between new pixels.
 * The new ones stand for `length` of the `from` pixels, from `start` on.
 */
function weights(from, to, filter, support, start = 0, length = from) {
  const step = length / to;
  const reach = support * Math.max(1, step);
  return Array.from({ length: to }, (_, i) => {
    const centre = start + (i + 0.5) * step;
    const first = Math.max(0, Math.floor(centre - reach + 0.5));
    const last = Math.min(from, Math.floor(centre + reach + 0.5));
    const values = [];
    for (let j = first; j < last; j++) values.push(filter((j + 0.5 - centre) / Math.max(1, step)));
    const total = values.reduce((a, b) => a + b, 0);
    return { first, values: values.map(v => v / total) };
  });
}

/** What `box` shows of the plane (width, height), filtered to (toWidth, toHeight): rows, then columns, as Pillow does. */
function filtered(plane, width, height, toWidth, toHeight, filter, support, box = { left: 0, top: 0, width, height }) {
  const across = weights(width, toWidth, filter, support, box.left, box.width);
  const middle = new Uint8Array(toWidth * height);
  for (let y = 0; y < height; y++)
    across.forEach(({ first, values }, x) => {
      let sum = 0;
      for (let k = 0; k < values.length; k++) sum += values[k] * plane[y * width + first + k];
      middle[y * toWidth + x] = byte(sum);
    });
  const down = weights(height, toHeight, filter, support, box.top, box.height);
  const made = new Uint8Array(toWidth * toHeight);
  down.forEach(({ first, values }, y) => {
    for (let x = 0; x < toWidth; x++) {
      let sum = 0;
      for (let k = 0; k < values.length; k++) sum += values[k] * middle[(first + k) * toWidth + x];
      made[y * toWidth + x] = byte(sum);
    }
  });
  return made;
}

function nearest(plane, width, height, size) {
  const made = new Uint8Array(size * size);
  for (let y = 0; y < size; y++)
    for (let x = 0; x < size; x++)
      made[y * size + x] = plane[Math.floor(((y + 0.5) * height) / size) * width + Math.floor(((x + 0.5) * width) / size)];
  return made;
}

function bilinear(plane, width, height, size) {
  const made = new Uint8Array(size * size);
  const place = (i, side) => (size > 1 ? (i * (side - 1)) / (size - 1) : 0);
  for (let y = 0; y < size; y++)
    for (let x = 0; x < size; x++) {
      const [v, u] = [place(y, height), place(x, width)];
      const [top, left] = [Math.floor(v), Math.floor(u)];
      const [bottom, right] = [Math.min(height - 1, top + 1), Math.min(width - 1, left + 1)];
      const [dy, dx] = [v - top, u - left];
      const at = (row, column) => plane[row * width + column];
      const upper = at(top, left) * (1 - dx) + at(top, right) * dx;
      made[y * size + x] = byte(upper * (1 - dy) + (at(bottom, left) * (1 - dx) + at(bottom, right) * dx) * dy);
    }
  return made;
}

/** The centre square: nothing is stretched. */
function cropped(plane, width, height, size) {
  const side = Math.min(width, height);
  const box = { left: (width - side) >> 1, top: (height - side) >> 1, width: side, height: side };
  return filtered(plane, width, height, size, size, triangle, 1, box);
}

/** One plane by a resize rule of the learner's preparation. */
export function resized(plane, width, height, size, rule) {
  if (width === size && height === size) return plane;
  if (rule === "nearest") return nearest(plane, width, height, size);
  if (rule === "bilinear") return bilinear(plane, width, height, size);
  if (rule === "crop") return cropped(plane, width, height, size);
  if (rule === "lanczos") return filtered(plane, width, height, size, size, lanczos, 3);
  return filtered(plane, width, height, size, size, triangle, 1);
}

/** White strokes on black, whatever their size and place: cut out, scaled to one size and centred. Null without ink. */
export function centred(ink, width, height, size) {
  let [left, top, right, bottom] = [width, height, -1, -1];
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++)
      if (ink[y * width + x] >= INK) {
        [left, right] = [Math.min(left, x), Math.max(right, x)];
        [top, bottom] = [Math.min(top, y), Math.max(bottom, y)];
      }
  if (right < 0) return null;
  const [w, h] = [right - left + 1, bottom - top + 1];
  const cut = new Uint8Array(w * h);
  for (let y = 0; y < h; y++) cut.set(ink.subarray((top + y) * width + left, (top + y) * width + left + w), y * w);
  const longest = Math.round(FIT * size);
  const scale = longest / Math.max(w, h);
  const [toW, toH] = [Math.max(1, Math.round(w * scale)), Math.max(1, Math.round(h * scale))];
  const small = filtered(cut, w, h, toW, toH, triangle, 1);
  const made = new Uint8Array(size * size);
  const [x0, y0] = [Math.floor((size - toW) / 2), Math.floor((size - toH) / 2)];
  for (let y = 0; y < toH; y++) made.set(small.subarray(y * toW, (y + 1) * toW), (y0 + y) * size + x0);
  return made;
}

/** A photo of a drawing as ink: grey, strokes white on black, paper black. Null if it shows none. */
export function inkOf(grey, width, height) {
  let [low, high] = [255, 0];
  for (const value of grey) [low, high] = [Math.min(low, value), Math.max(high, value)];
  if (high - low < FLAT) return null;
  let border = 0;
  for (let x = 0; x < width; x++) border += grey[x] + grey[(height - 1) * width + x];
  for (let y = 0; y < height; y++) border += grey[y * width] + grey[y * width + width - 1];
  const paperIsLight = border / (2 * (width + height)) > (low + high) / 2;
  return grey.map(value => byte(((paperIsLight ? high - value : value - low) * 255) / (high - low)));
}

function planes(image) {
  const count = image.width * image.height;
  const made = [0, 1, 2, 3].map(() => new Uint8Array(count));
  for (let i = 0; i < count; i++) for (let c = 0; c < 4; c++) made[c][i] = image.data[4 * i + c];
  return made;
}

const greyOf = ([r, g, b]) => r.map((red, i) => (19595 * red + 38470 * g[i] + 7471 * b[i] + 0x8000) >> 16);
const repeated = (plane, channels) => Uint8Array.from({ length: plane.length * channels }, (_, i) => plane[i % plane.length]);

/** A pad's drawing, whose ink is the canvas's opacity: bytes for the net, or null if there is none. */
export function preparedInk(image, preparation) {
  const ink = planes(image)[3];
  const { size, channels, kind, resize } = preparation;
  if (kind === "drawing") return centred(ink, image.width, image.height, size);
  if (!ink.some(value => value >= INK)) return null;
  const shown = channels === 1 ? ink : ink.map(value => 255 - value); // colour nets know photos of ink on paper
  return repeated(resized(shown, image.width, image.height, size, resize), channels);
}

/** A photo: bytes for the net, or null if it shows nothing that the net could use. */
export function preparedPhoto(image, preparation) {
  const [r, g, b] = planes(image);
  const { size, channels, kind, resize, inverted } = preparation;
  const { width, height } = image;
  if (kind === "drawing") {
    const ink = inkOf(greyOf([r, g, b]), width, height);
    return ink && centred(ink, width, height, size);
  }
  const shown = channels === 1 ? [greyOf([r, g, b])] : [r, g, b];
  const made = new Uint8Array(channels * size * size);
  shown.forEach((plane, c) => {
    const straight = inverted ? plane.map(value => 255 - value) : plane;
    made.set(resized(straight, width, height, size, resize), c * size * size);
  });
  return made;
}
