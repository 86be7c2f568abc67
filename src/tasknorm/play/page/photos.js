// Pictures from elsewhere: files that are chosen or dropped, and the camera.

import { $ } from "./dom.js";

const LARGEST = 1024; // the longer side to which a photo is shrunk before anything else

/** An image of a file or a video as a canvas; throws if it is none. */
async function canvasOf(source) {
  const bitmap = await createImageBitmap(source);
  const scale = Math.min(1, LARGEST / Math.max(bitmap.width, bitmap.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(bitmap.width * scale));
  canvas.height = Math.max(1, Math.round(bitmap.height * scale));
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.fillStyle = "white";
  context.fillRect(0, 0, canvas.width, canvas.height); // behind what is transparent
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  bitmap.close();
  return canvas;
}

/** Calls `take(canvas, name)` for each picture, and `refuse(sentence)` for what is none. */
export function watchPhotos(take, refuse) {
  const each = async files => {
    for (const file of files) {
      try {
        take(await canvasOf(file), file.name);
      } catch {
        refuse(`${file.name} is not a picture that this browser can read; use a JPEG or PNG file.`);
      }
    }
  };
  $("files").addEventListener("change", async event => {
    await each([...event.target.files]);
    event.target.value = "";
  });
  document.addEventListener("dragover", event => event.preventDefault());
  document.addEventListener("drop", event => {
    event.preventDefault();
    each([...event.dataTransfer.files]);
  });
  watchCamera(take, refuse);
}

function watchCamera(take, refuse) {
  let stream = null;
  const close = () => {
    stream?.getTracks().forEach(track => track.stop());
    stream = null;
    $("viewfinder").hidden = true;
  };
  $("camera").addEventListener("click", async () => {
    try {
      stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
      $("video").srcObject = stream;
      await $("video").play();
      $("viewfinder").hidden = false;
      $("shoot").focus();
    } catch (error) {
      close();
      refuse(`No camera could be opened (${error.message || error.name}); allow it in the browser, or choose picture files.`);
    }
  });
  $("shoot").addEventListener("click", async () => take(await canvasOf($("video")), "camera"));
  $("camera-off").addEventListener("click", close);
}
