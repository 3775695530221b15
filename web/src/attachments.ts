/** Files that the user attaches: photos, pasted or dropped files. */

import type { FilePart } from "./wire_types";

const LARGEST_BYTES = 20 * 1024 * 1024;
const LARGEST_IMAGE_BYTES = 3 * 1024 * 1024;
const LARGEST_IMAGE_SIDE = 2000;

export async function readAttachment(file: File): Promise<FilePart> {
  const name = (file.name || "pasted").slice(0, 1000);
  if (file.type.startsWith("image/") && file.type !== "image/svg+xml") {
    const image = await smallerImage(file);
    return { type: "file", name, media_type: image.type, data: await base64(image) };
  }
  if (file.size > LARGEST_BYTES) throw new Error(`${name} is too large to attach; the limit is 20 MB`);
  const bytes = new Uint8Array(await file.arrayBuffer());
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    if (!text.includes("\0")) return { type: "file", name, media_type: "text/plain", text };
  } catch {
    // not text
  }
  const type = /^[!-~]{1,100}$/.test(file.type) ? file.type : "application/octet-stream";
  return { type: "file", name, media_type: type, data: await base64(new Blob([bytes])) };
}

/** Photos of phones are larger than models read: they are scaled down. */
async function smallerImage(file: File): Promise<Blob> {
  let bitmap: ImageBitmap;
  try {
    bitmap = await createImageBitmap(file);
  } catch {
    return file;
  }
  const scale = Math.min(1, LARGEST_IMAGE_SIDE / Math.max(bitmap.width, bitmap.height));
  const isCommon = ["image/png", "image/jpeg", "image/gif", "image/webp"].includes(file.type);
  if (scale === 1 && file.size <= LARGEST_IMAGE_BYTES && isCommon) return file;
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(bitmap.width * scale);
  canvas.height = Math.round(bitmap.height * scale);
  canvas.getContext("2d")?.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, "image/jpeg", 0.85));
  return blob ?? file;
}

function base64(blob: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).replace(/^[^,]*,/, ""));
    reader.onerror = () => reject(new Error("the file cannot be read"));
    reader.readAsDataURL(blob);
  });
}

/** Take files that are dropped anywhere on the page: a browser would leave the page and open them. */
export function acceptFiles(attach: (files: File[]) => void, setDropping: (dropping: boolean) => void): () => void {
  const hasFiles = (event: DragEvent): boolean => event.dataTransfer?.types.includes("Files") ?? false;
  const over = (event: DragEvent): void => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    setDropping(true);
  };
  const leave = (event: DragEvent): void => {
    if (event.relatedTarget === null) setDropping(false);
  };
  const drop = (event: DragEvent): void => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    setDropping(false);
    attach([...(event.dataTransfer?.files ?? [])]);
  };
  addEventListener("dragover", over);
  addEventListener("dragleave", leave);
  addEventListener("drop", drop);
  return () => {
    removeEventListener("dragover", over);
    removeEventListener("dragleave", leave);
    removeEventListener("drop", drop);
  };
}
